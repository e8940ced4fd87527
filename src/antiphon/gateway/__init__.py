"""A gateway: many servers as one, whose asks one host answers."""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it: type checkers take this name as true
if TYPE_CHECKING:
    from antiphon.gateway.names import Filters as Filters
    from antiphon.gateway.gateway import Gateway as Gateway
    from antiphon.gateway.gateway import Proxy as Proxy
    from antiphon.gateway.terms import RunOptions as RunOptions, SignIn as SignIn
    from antiphon.host.review.definitions import ShownServer as ShownServer, ShownTool as ShownTool
else:
    _HOMES = {
        "antiphon.gateway.names": "Filters",
        "antiphon.gateway.gateway": "Gateway Proxy",
        "antiphon.gateway.terms": "RunOptions SignIn",
        "antiphon.host.review.definitions": "ShownServer ShownTool",
    }
    __all__ = [name for names in _HOMES.values() for name in names.split()]

    def __getattr__(name: str) -> object:
        from antiphon.machine.public_names import load_public_name

        return load_public_name(__name__, _HOMES, name)
