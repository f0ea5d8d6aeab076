"""Which messages a subscription lets through. Pure: no bytes of messages, no sockets, no time."""
