"""Streamable HTTP, the server's side: one ASGI callable for every revision."""
