"""The server's side of Streamable HTTP: one ASGI application for all revisions."""
