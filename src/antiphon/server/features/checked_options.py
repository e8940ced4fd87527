"""Parts that features of several kinds share: their function, their mount, annotations, and scopes of a token.

Unknown annotations are refused at the decorator. Every request for a feature is checked for its scopes, over every
transport; ``auth`` determines the scopes of a token.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Generic, Self, TypedDict, TypeVar, cast, get_args

import msgspec
from msgspec import structs

from antiphon.engine.connection import Connection
from antiphon.errors import ConfigError, InsufficientScope
from antiphon.json_schema.validator import suggest_name
from antiphon.protocol.events import Request
from antiphon.server.features.registry import Via
from antiphon.server.functions.function import UserFunction
from antiphon.wire import prompts, tools
from antiphon.wire.apps import APP_SCHEME, ToolUser
from antiphon.wire.common import TAGS, VERSION, Annotations, Icon, Meta
from antiphon.wire.tools import ToolAnnotations

# RFC 6749, section 3.3: visible ASCII without quote and backslash, which would end the text in the header.
_SCOPE = r"[\x21\x23-\x5b\x5d-\x7e]{1,256}"


D = TypeVar("D", bound=prompts.Prompt | tools.Tool)


class AccessOptions(TypedDict, total=False):
    """Options about who is offered a feature, and how it is found and kept."""

    scopes: Sequence[str]
    """Scopes that a caller's token must have, all of them, if tokens are checked (``auth=``)."""
    visible: Callable[[str | None], bool]
    """Whether a principal (``None`` without one) sees the feature. One that is hidden is not listed, and a request for
    it is answered as if it did not exist."""
    tags: Collection[str]
    """Words to find it by (``list_by_tag``); sent to clients as ``_meta["antiphon/tags"]``."""
    version: str
    """Its version, for people and programs; sent to clients as ``_meta["antiphon/version"]``."""
    cache: float
    """Seconds for which a result may be used again. Clients of 2026-07-28 keep what they have read of a resource. The
    protocol has no such hint for tools and prompts: ``ResponseCachingMiddleware`` goes by it at the server."""


ACCESS = frozenset(AccessOptions.__annotations__)


class FeatureOptions(TypedDict, total=False):
    """Options of every feature."""

    name: str
    """Name of the feature; by default the function's."""
    title: str
    """Name for people."""
    icons: Sequence[Icon]
    """Pictures that a client may show."""
    meta: Meta
    """The definition's ``_meta``."""
    inline: bool
    """Run a function that is not async on the event loop instead of in a thread: only for one that never blocks."""


class ServedFeature:
    """A function that is served, and what it takes to call it."""

    __slots__ = ("_function", "cache", "is_direct", "is_listed", "scopes", "tags", "via", "visible", "wants_context")

    def __init__(self, function: UserFunction, place: str, access: AccessOptions) -> None:
        self.scopes = checked_scopes(access["scopes"], place) if "scopes" in access else ()
        """What a caller's token has to allow."""
        self.visible = access.get("visible")
        """Whether a principal sees it; ``None`` if all do."""
        self.tags = frozenset(access.get("tags", ()))
        self.cache = access.get("cache")
        """Seconds for which a result may be used again; ``None`` if nothing was said."""
        self.via: Via | None = None
        """The mount that it came through, if it belongs to a mounted server."""
        self.is_listed = True
        """Whether it is in the list of its kind; otherwise it is found by its name or URI alone."""
        self.is_direct = self.visible is None
        """Whether it is served here, and to everybody."""
        self.wants_context = function.context is not None
        """Whether the function takes the context, and so may ask the client."""
        self._function = function

    @property
    def code(self) -> bytes:
        """The digest of the function's code."""
        return self._function.code

    def is_hidden_from(self, principal: str | None) -> bool:
        """Return whether a principal must not learn that this exists.

        Args:
            principal: who asks; ``None`` if that is not known.
        """
        seen = self.visible is None or self.visible(principal)
        # A coroutine, which a lambda may return as well, is no answer.
        return not seen or inspect.iscoroutine(seen)

    def mounted(self, via: Via) -> Self:
        """Return a copy of this for a server that mounts its own server.

        Args:
            via: the mount.
        """
        listed = copy(self)
        listed.via, listed.is_direct = via, False
        return listed


class NamedFeature(ServedFeature, Generic[D]):
    """A feature with a name, which a mount may change. Its definition may be made on first use."""

    __slots__ = ("_build", "name")
    name: str
    _build: Callable[[], D] | D

    @property
    def definition(self) -> D:
        """The feature as it is listed. Made on first use, since parsing docstrings takes time."""
        build = self._build
        if callable(build):
            build = self._build = build()
        if build.name != self.name:
            build = self._build = structs.replace(build, name=self.name)
        return build


def describe_access(meta: Meta | None, access: AccessOptions, place: str, known: Iterable[str] = ACCESS) -> Meta | None:
    """Return the ``_meta`` of a definition with tags and version; ``ConfigError`` for options that cannot be used.

    ``known``: the names that ``access`` may hold.
    """
    tags, version = access.get("tags", ()), access.get("version")
    given = cast("Mapping[str, Any]", access)
    check_icons(given.get("icons"), place)
    for option in ("meta", "output_schema"):
        if not isinstance(given.get(option) or {}, Mapping):
            raise ConfigError(f"{place}: {option}= takes names with their values, not {given[option]!r}")
    for option in ("name", "title", "description", "version", "mime_type", "ui"):
        if not isinstance(given.get(option) or "", str):
            raise ConfigError(f"{place}: {option}= is text, not {given[option]!r}")
    if unknown := sorted(access.keys() - known):
        raise TypeError(f"{place}: there is no option {unknown[0]}=")
    if isinstance(tags, str):
        raise ConfigError(f"{place}: tags= is a set, as in tags={{{tags!r}}}")
    for option in ("cache", "timeout"):
        if not (isinstance(seconds := access.get(option) or 0, int | float) and seconds >= 0):
            raise ConfigError(f"{place}: {option}= is a number of seconds, not {seconds!r}")
    visible = access.get("visible", callable)
    if not callable(visible) or inspect.iscoroutinefunction(visible) or inspect.iscoroutinefunction(visible.__call__):
        raise ConfigError(f"{place}: visible= is a function of the principal that is not async, not {visible!r}")
    more = {TAGS: sorted(tags)} if tags else {}
    more |= {} if version is None else {VERSION: version}
    return {**(meta or {}), **more} if more else meta


def check_icons(icons: Any, place: str) -> None:
    """Check that these are icons; raises ``ConfigError`` for anything else."""
    many = cast("Sequence[Any]", icons or ())
    if not isinstance(icons or (), Sequence) or not all(isinstance(icon, Icon) for icon in many):
        raise ConfigError(f"{place}: icons= is a list of Icon(src=...), not {icons!r}")


def checked_scopes(scopes: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the scopes of a feature; raises ``ConfigError`` for an invalid one, and for a text in place of a list."""
    if isinstance(scopes, str):
        # A text would be taken for a list of its letters.
        raise ConfigError(f"{place}: scopes= is a list, as in scopes=[{scopes!r}]")
    for scope in scopes:
        if not re.fullmatch(_SCOPE, scope):
            raise ConfigError(
                f"{place}: {scope!r} cannot be a scope; use letters, digits and signs, without spaces, quotes and "
                "backslashes"
            )
    return tuple(dict.fromkeys(scopes))


def demand_scopes(scopes: Iterable[str], request: Request, peer: Connection[Any]) -> None:
    """Refuse a request whose token lacks one of these scopes; a local program, which has no token, needs none."""
    required = tuple(scopes)
    # 2026-07-28 basic/authorization: "Implementations using an STDIO transport SHOULD NOT follow this
    # specification": the program that started us may do everything. Over a network an unverified request may do
    # nothing.
    allows = peer.is_local or not required if request.caller is None else request.caller.has(required)
    if not allows:
        raise InsufficientScope(scopes=required)


A = TypeVar("A", Annotations, ToolAnnotations)


def read_annotations(given: Any, kind: type[A], place: str) -> A:
    """Return annotations as their class, from names of members or of the wire; ``ConfigError`` names the place."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place}: annotations= takes {kind.__name__}(...), not {given!r}")
    names = {name: field.encode_name for field in structs.fields(kind) for name in (field.name, field.encode_name)}
    members = cast("Mapping[str, Any]", given)
    for name in members:
        if name not in names:
            raise ConfigError(f'{place}: annotations= has no "{name}"{suggest_name(name, names)}')
    try:
        return msgspec.convert({names[name]: value for name, value in members.items()}, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place}: annotations= has a wrong value: {error}") from None


_USERS = get_args(ToolUser)


def declare_ui(ui: str | None, visibility: Sequence[ToolUser] | None, meta: Meta | None, place: str) -> Meta | None:
    """Return the ``_meta`` of a tool with its interface, and with who may call it."""
    if ui is not None and not ui.startswith(APP_SCHEME):
        raise ConfigError(f'{place}: ui= is the URI of an interface, as in "{APP_SCHEME}shop/prices", not {ui!r}')
    if visibility is not None:
        wrong = [visibility] if isinstance(visibility, str) else [one for one in visibility if one not in _USERS]
        if wrong or not visibility:
            raise ConfigError(f'{place}: visibility= is a list of "model" and "app", not {visibility!r}')
    members = {"resourceUri": ui, "visibility": None if visibility is None else list(visibility)}
    given = {name: value for name, value in members.items() if value is not None}
    return {**(meta or {}), "ui": {**(meta or {}).get("ui", {}), **given}} if given else meta
