"""Connecting to a server: targets, the handshake, and reading other hosts' configuration files."""
