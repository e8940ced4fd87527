"""JSON Schema, for both sides: validation against schemas of a peer, and errors in words.

``validator`` bounds a schema and validates values against it; ``mismatch`` makes sentences from the reports of
validators.
"""
