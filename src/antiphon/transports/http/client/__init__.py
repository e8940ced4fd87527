"""The client's side of Streamable HTTP, both eras (2025-03-26 to 2026-07-28, basic/transports).

``channel`` is what a client uses. The rest are its parts: ``web`` (one HTTP request, as we make them), ``line`` (what
the requests of one channel share), ``message`` (what must be known of a message to send it), ``call`` (a request and
its reply), ``listener`` (the stream for what belongs to no request), ``stream`` (server-sent events and where to
resume), ``failures`` (what the caller is told when HTTP fails).

aiohttp carries the bytes: whoever imports a module of this package pays for it.
"""

from __future__ import annotations
