"""The models of a user: which there are, and which one answers."""
