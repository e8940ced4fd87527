"""Processes that serve: their memory, and several of them on one port."""
