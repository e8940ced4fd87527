"""Reaching a server: what a target means, the handshake, and the link over its life."""
