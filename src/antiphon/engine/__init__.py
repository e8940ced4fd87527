"""The only place that owns tasks: the running loop around a session."""
