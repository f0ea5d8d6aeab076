"""Retry and dead letters: what a group could not consume comes back later, or goes to rest in `%DLQ%group`."""
