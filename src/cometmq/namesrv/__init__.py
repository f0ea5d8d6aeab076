"""The NameServer: brokers register with it, clients ask it where topics are. Nodes never talk to each other."""
