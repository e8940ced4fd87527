"""The rules of Streamable HTTP, without I/O."""
