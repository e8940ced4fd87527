"""Pages beside the endpoint: what an author serves at other paths, behind the same checks of ``Host`` and ``Origin``.

A route never takes a path of the protocol: the endpoint, what is below ``/.well-known``, documents of a gate, health.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast
from urllib.parse import parse_qsl

from msgspec import Struct

from antiphon.errors import ConfigError, InvalidRequest
from antiphon.protocol.http.rules import HttpRefusal, check_unambiguous
from antiphon.transports.http.server import asgi, entrance
from antiphon.transports.http.server.entrance import Guard
from antiphon.wire.envelope import encode_value

log = logging.getLogger("antiphon.server")

_MAX_BODY = 1024 * 1024
"""Most bytes of a body that a function gets; an ASGI application bounds its own."""
_MAX_FIELDS = 1_000
"""Most fields of a query."""
_BODY_TIMEOUT = 30.0


class RouteRequest(Struct, frozen=True, kw_only=True):
    """A request to a route; of query fields with one name ``query`` has the last."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class _Route(Struct, frozen=True):
    function: Callable[..., Any]
    is_app: bool
    methods: frozenset[str]
    media_type: str | None


class Routes(Struct, eq=False):
    """The routes of one server, by path; a path that ends in a slash stands for all below it."""

    _routes: dict[str, _Route] = {}

    def add(
        self, path: str, function: Callable[..., Any], methods: Collection[str] | None, media_type: str | None = None
    ) -> None:
        """Add a route; raises ``ConfigError`` if the path is taken, or what it leads to cannot be called."""
        place = f"server.route({path!r})"
        if not path.startswith("/") or "//" in path or "{" in path or "/.." in path:
            raise ConfigError(f"{place}: a path begins with one slash and has no gaps, as in '/health', or '/static/'")
        if "/.well-known" in path:
            raise ConfigError(f"{place}: what is below /.well-known says where clients sign in; choose another path")
        if path in self._routes:
            raise ConfigError(f"{place}: the path has a route already")
        if isinstance(methods, str):
            raise ConfigError(f"{place}: methods= is a list, as in [{methods!r}]")
        wanted = _count_arguments(function)
        if wanted not in (1, 3):
            raise ConfigError(
                f"{place}: a route leads to a function of the request, or to an ASGI application "
                f"(scope, receive, send), not to {function!r}"
            )
        allowed = frozenset(each.upper() for each in methods or (() if wanted == 3 else ("GET", "HEAD")))
        self._routes[path] = _Route(function, wanted == 3, allowed, media_type)

    def check(self, reserved: Collection[str]) -> None:
        """Raise ``ConfigError`` if a route would stand before one of these paths."""
        for path in self._routes:
            for other in reserved:
                if path.rstrip("/") == other.rstrip("/") or (path[1:].endswith("/") and other.startswith(path)):
                    raise ConfigError(
                        f"server.route({path!r}): the server itself answers at {other or '/'}; choose another path"
                    )

    def find(self, path: str) -> tuple[str, _Route] | None:
        """Return the route of a path, and the prefix below which it serves: the longest one that fits."""
        fitting = [each for each in self._routes if path == each or (each[1:].endswith("/") and path.startswith(each))]
        longest = max(fitting, key=len, default=None)
        return None if longest is None else (longest[:-1] if longest.endswith("/") else "", self._routes[longest])

    async def serve(self, guard: Guard, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> bool:
        """Serve one ASGI scope, if it has a route; return whether it has one."""
        if scope["type"] != "http":
            return False
        http = asgi.Http(scope, receive, send)
        # Where the server is mounted in another application, the mount point itself is the endpoint.
        is_mount_point = http.local_path in ("", "/") and http.local_path != http.path
        found = None if is_mount_point else self.find(http.local_path)
        if found is None:
            return False
        prefix, route = found
        refusal = guard.check(http.headers) or check_unambiguous(http.pairs, http.headers)
        allowed = ", ".join(sorted(route.methods)).encode("ascii", "replace")
        if refusal is not None:
            await asgi.send_refusal(http, refusal)
        elif entrance.answers_page(http) and not route.is_app:
            await entrance.send_preflight(http, allowed)
        elif route.methods and http.method not in route.methods:
            await asgi.send_refusal(http, asgi.NOT_ALLOWED, None, (b"allow", allowed))
        elif route.is_app:
            inner = {**http.scope, "root_path": http.root_path + prefix} if prefix else http.scope
            await route.function(inner, http.receive, http.send)
        else:
            await _send_answer(http, route)
        return True


async def _send_answer(http: asgi.Http, route: _Route) -> None:
    body = b"" if http.method in ("GET", "HEAD") else await asgi.read_body(http, _MAX_BODY, _BODY_TIMEOUT)
    if http.query.count(b"&") >= _MAX_FIELDS:
        body = HttpRefusal(414, InvalidRequest(f"The query has more than {_MAX_FIELDS} fields"))
    if isinstance(body, HttpRefusal):
        await asgi.send_refusal(http, body)
        return
    try:
        fields = dict(parse_qsl(http.query.decode("latin-1"), keep_blank_values=True))
        request = RouteRequest(
            method=http.method, path=http.local_path, query=fields, headers=asgi.RequestHeaders(http.headers), body=body
        )
        value = route.function(request)
        value = await value if inspect.isawaitable(value) else value
        status, value = cast("tuple[int, Any]", value) if isinstance(value, tuple) else (200, value)
        if status not in range(200, 600):
            raise ValueError(f"a route returns a status from 200 to 599, not {status!r:.50}")
        given: object = value
        kind, content = route.media_type or "application/octet-stream", value
        if isinstance(given, str):
            # Never guessed from the text: what a stranger has sent could then become a page with a script.
            kind, content = f"{route.media_type or 'text/plain'}; charset=utf-8", given.encode(errors="replace")
        elif not isinstance(given, bytes) and not callable(given):
            kind, content = "application/json", encode_value(given)
    except Exception:
        log.exception("the route %s failed", ascii(http.local_path[:128]))
        status, value, kind, content = 500, None, "text/plain; charset=utf-8", b"Internal server error"
    if callable(value):
        await cast("Any", value)(http.scope, http.receive, http.send)
        return
    headers = ((b"content-type", kind.encode()), (b"x-content-type-options", b"nosniff"))
    await asgi.send_response(http, status, headers, content)


def _count_arguments(function: object) -> int | None:
    """Return how many arguments a callable needs; ``None`` if it cannot be called with positional ones."""
    try:
        parameters = inspect.signature(cast("Callable[..., Any]", function)).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters)
