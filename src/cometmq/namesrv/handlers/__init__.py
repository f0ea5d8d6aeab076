"""What the NameServer answers, by subject; each class is given the few things it needs."""
