"""The client's side of Streamable HTTP, both eras (2025-03-26 to 2026-07-28, basic/transports).

``channel`` is the entry point. Its parts are ``http_request`` (one HTTP request), ``message`` (facts needed to send a
message), ``post`` (a request, its reply, where to resume the stream, and the state that the requests of one channel
share) and ``error_replies`` (for failures of HTTP).

Importing a module of this package imports aiohttp.
"""

from __future__ import annotations
