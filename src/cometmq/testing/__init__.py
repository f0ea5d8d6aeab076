"""The test kit that ships with CometMQ: faulty twins of disk and network, local clusters, checkers."""
