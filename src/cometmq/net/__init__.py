"""Sockets: the only floor that opens them. Everything above speaks in commands."""
