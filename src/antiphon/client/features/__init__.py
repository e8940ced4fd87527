"""What a client does with a server's features: tools, lists, caching, subscriptions."""
