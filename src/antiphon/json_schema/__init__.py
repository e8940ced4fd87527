"""JSON Schema, for both sides: validation against schemas of strangers, and misfits told in words.

``mismatch`` makes sentences of what validators report; ``validator`` bounds a schema and checks values against it.
"""
