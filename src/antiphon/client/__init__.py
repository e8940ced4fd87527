"""Calls to a server, and the answers to what it asks back, on every revision."""
