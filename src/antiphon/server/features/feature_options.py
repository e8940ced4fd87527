"""The options of features that an author may give in addition to the function.

Also the interfaces of tools, as a server offers them (extension ``io.modelcontextprotocol/ui``, SEP-1865).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

from antiphon.errors import ConfigError
from antiphon.server.features.checked_options import AccessOptions
from antiphon.server.features.resources import ServedResource
from antiphon.server.features.tools import AsTask, Confirm, Requirement
from antiphon.wire.apps import APP_SCHEME, APP_TYPE, CSP_MEMBERS, ToolUser
from antiphon.wire.common import Annotations, Icon, Meta
from antiphon.wire.content import ResourceContents
from antiphon.wire.tools import ToolAnnotations


class FeatureOptions(AccessOptions, total=False):
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


class ToolOptions(FeatureOptions, total=False):
    """Options of a tool."""

    description: str
    """What the tool does, for models; by default the function's docstring."""
    annotations: ToolAnnotations
    """Hints to clients, for example that the tool only reads."""
    output_schema: Mapping[str, Any]
    """JSON Schema of the structured content; by default from the return annotation. Results are validated against
    it."""
    structured: bool
    """``False``: return text only. ``True``: return structured content even for a plain string."""
    timeout: float
    """Seconds for one call, not counting time spent waiting for the client's answers."""
    requires: Requirement
    """A client capability that the tool needs; clients without it are not offered the tool."""
    once: bool
    """Never run one call twice. Where processes share keys, the call continues in another process only if the
    ``state_store`` guarantees that it does not continue in both. For side effects that cannot be a step."""
    task: AsTask
    """When a call becomes a task, which outlives its request (extension, from 2026-07-28). ``"allowed"``: at once, if
    the client declares the extension; ``"required"``: at once, and clients without it are refused; ``"later"``: when
    the handler says so (``Context.go_on_as_task``). By default ``"never"``."""
    confirm: Confirm
    """What the user is asked before each call: a text with the names of arguments in braces, or a function of arguments
    that returns it (``None``: no confirmation is needed). Where the user cannot be asked the call is refused."""

    ui: str
    """URI of the tool's interface, made by ``server.app``: hosts that know the extension show it beside the result
    (``io.modelcontextprotocol/ui``). The result must say the same without it."""
    visibility: Sequence[ToolUser]
    """Who may call the tool: ``["app"]`` for the interface alone, which hosts then hide from models. By default both
    ``"model"`` and ``"app"``."""


class TemplateOptions(FeatureOptions, total=False):
    """Options of a resource template."""

    description: str
    """What the resource holds; by default the function's docstring."""
    mime_type: str
    """Media type; by default from the return annotation: text or bytes."""
    annotations: Annotations
    """Hints to clients on how to use it."""


class ResourceOptions(TemplateOptions, total=False):
    """Options of a resource."""

    size: int
    """Size of the contents in bytes, before any encoding."""


class AppOptions(TypedDict, total=False):
    """Options of an interface."""

    name: str
    """Name of the interface; by default its URI without ``ui://``."""
    title: str
    """Name for people."""
    description: str
    """What the interface shows."""
    scopes: Sequence[str]
    """Scopes that a caller's token must have, all of them, if tokens are checked (``auth=``)."""


class PromptOptions(FeatureOptions, total=False):
    """Options of a prompt."""

    description: str
    """What the prompt is for; by default the function's docstring."""


BrowserFeature = Literal["camera", "microphone", "geolocation", "clipboardWrite"]
"""What an interface may use of the browser, if the host allows it."""

_ORIGIN = re.compile(r"(?:https?|wss?)://(?:\*\.)?[A-Za-z0-9.-]+(?::[0-9]{1,5}|:\*)?")
"""An origin, perhaps with all its subdomains; nothing that could end the directive of a policy it is put into."""


def make_app(
    uri: str,
    html: str | PathLike[str],
    domains: Mapping[str, Sequence[str]],
    permissions: Sequence[BrowserFeature],
    more: Mapping[str, Any],
    **options: Any,
) -> ServedResource:
    """Make the resource of an interface.

    ``domains``: origins by the members of ``csp``; ``more``: other members of ``ui``; ``options``: those of a resource.
    """
    place = f"app {uri!r}"
    if not uri.startswith(APP_SCHEME):
        raise ConfigError(f'{place}: the URI of an interface begins with "{APP_SCHEME}"')
    for origins in domains.values():
        wrong = [origins] if isinstance(origins, str) else [one for one in origins if not _ORIGIN.fullmatch(one)]
        if wrong:
            raise ConfigError(f'{place}: a list of origins, as in ["https://api.example.com"], not {wrong[0]!r}')
    for one in permissions:
        if one not in get_args(BrowserFeature):
            raise ConfigError(f"{place}: permissions= is a list of {', '.join(get_args(BrowserFeature))}, not {one!r}")
    csp = {name: list(origins) for name, origins in zip(CSP_MEMBERS, domains.values(), strict=True) if origins}
    ui: dict[str, Any] = {"csp": csp, "permissions": {one: {} for one in permissions}, **more}
    meta: Meta = {"ui": {name: value for name, value in ui.items() if value not in (None, {})}}

    def read() -> ResourceContents:
        """Read the interface; its file each time, so that a change is seen."""
        text = html if isinstance(html, str) else Path(html).read_text(encoding="utf-8")
        return ResourceContents(uri=uri, text=text, mime_type=APP_TYPE, meta=meta)

    name = options.pop("name", None) or uri.removeprefix(APP_SCHEME)
    return ServedResource.from_function(read, uri, name=name, mime_type=APP_TYPE, meta=meta, **options)
