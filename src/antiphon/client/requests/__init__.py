"""Our requests: sending, replies, trying again."""
