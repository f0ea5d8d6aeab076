"""Plain values that every floor above shares. Nothing here reads or writes bytes, files or sockets."""
