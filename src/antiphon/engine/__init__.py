"""The running loop around a session; the only package besides the transports that owns tasks."""
