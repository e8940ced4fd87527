"""Is this server right, and is it safe to use: probes of a running server, and rules on what it says."""
