"""WebSocket (a custom transport): one message, one frame, both ways."""
