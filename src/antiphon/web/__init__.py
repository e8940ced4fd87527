"""The review page: the questions that wait for a person, in a browser on this machine. Needs ``antiphon[host]``.

Knows a store, and neither servers nor clients: decisions are passed by the ``Queue``, as for the terminal.
"""

from __future__ import annotations

from antiphon.web.page import ReviewPage
from antiphon.web.serve import RunningPage, running_page, serve_page

__all__ = ["ReviewPage", "RunningPage", "running_page", "serve_page"]
