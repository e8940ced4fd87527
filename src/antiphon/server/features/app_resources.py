"""Interfaces of tools, as a server offers them (extension ``io.modelcontextprotocol/ui``, SEP-1865)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from antiphon.errors import ConfigError
from antiphon.server.features.resources import ServedResource
from antiphon.wire.apps import APP_SCHEME, APP_TYPE, CSP_MEMBERS
from antiphon.wire.common import Meta
from antiphon.wire.content import ResourceContents

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
