"""The review page: the questions that wait for a person, in a browser on this machine. Needs ``antiphon[host]``.

Knows a store, and neither servers nor clients: decisions are passed by the ``Queue``, as for the terminal.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it: type checkers take this name as true
if TYPE_CHECKING:
    from antiphon.web.page import ReviewPage as ReviewPage
    from antiphon.web.page_server import (
        RunningPage as RunningPage,
        running_page as running_page,
        serve_page as serve_page,
    )
else:
    _HOMES = {
        "antiphon.web.page": "ReviewPage",
        "antiphon.web.page_server": "RunningPage running_page serve_page",
    }
    __all__ = [name for names in _HOMES.values() for name in names.split()]

    def __getattr__(name: str) -> object:
        from antiphon.machine.public_names import load_public_name

        return load_public_name(__name__, _HOMES, name)
