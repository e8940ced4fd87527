"""JSON Schema, for both sides: validation against schemas of a peer, and errors in words."""
