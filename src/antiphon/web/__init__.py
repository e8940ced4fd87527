"""The review page: what waits for a person, in a browser on this machine. Needs ``antiphon[host]``.

Knows a store and nothing of servers or clients: the ``Queue`` is how decisions travel, as for the terminal.
"""

from __future__ import annotations

from antiphon.web.page import ReviewPage
from antiphon.web.serve import RunningPage, running_page, serve_page

__all__ = ["ReviewPage", "RunningPage", "running_page", "serve_page"]
