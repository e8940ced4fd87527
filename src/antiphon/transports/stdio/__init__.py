"""Standard streams: of this process for a server, of a child process for a client."""
