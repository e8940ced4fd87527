"""What a server is published with: a bundle for hosts, and an entry for the registry."""
