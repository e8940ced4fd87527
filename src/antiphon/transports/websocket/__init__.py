"""WebSocket (a custom transport): one message, one frame, both ways."""

SUBPROTOCOL = "mcp"
EXPIRED = 3000
"""The registered close code "Unauthorized"."""
