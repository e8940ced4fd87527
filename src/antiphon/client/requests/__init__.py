"""Requests to the server: sending, replies, retries."""
