"""The message store: log, queues, index, tables on disk. Synchronous; its door is `engine.Store`."""
