"""Features of the server: lists, caching, notifications."""
