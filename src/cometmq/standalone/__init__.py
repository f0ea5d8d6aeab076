"""NameServer and broker in one process; the top floor."""
