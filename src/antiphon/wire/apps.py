"""Apps: interfaces in HTML that a host may show beside a tool's result (extension ``io.modelcontextprotocol/ui``).

Owns the member ``ui`` of ``_meta``, of tools and of resources. Nothing here renders an interface.

Source: SEP-1865, revision 2026-01-26.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from antiphon.wire.common import Meta
from antiphon.wire.resources import Resource
from antiphon.wire.tools import Tool

APP_TYPE = "text/html;profile=mcp-app"
"""Media type of an interface."""

APP_SCHEME = "ui://"

ToolUser = Literal["model", "app"]
"""Who may call a tool: the model, or the interface of the same server."""

CSP_MEMBERS = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
"""The members of ``csp``, each a list of origins that an interface may use."""


def read_ui(meta: Meta | None) -> Mapping[str, Any]:
    """Return the member ``ui`` of ``_meta``; empty if there is none."""
    found: object = (meta or {}).get("ui")
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def is_for_model(tool: Tool) -> bool:
    """Return whether a model may call a tool: a host MUST NOT offer it a tool whose ``visibility`` leaves it out."""
    visibility = read_ui(tool.meta).get("visibility")
    return not isinstance(visibility, list) or "model" in visibility


def find_app_uri(tool: Tool) -> str:
    """Return the URI of a tool's interface; empty if it has none. Older servers have it in ``ui/resourceUri``."""
    uri = read_ui(tool.meta).get("resourceUri", (tool.meta or {}).get("ui/resourceUri"))
    return uri if isinstance(uri, str) and uri.startswith(APP_SCHEME) else ""


def list_app_origins(uri: str, resources: Iterable[Resource]) -> tuple[str, ...] | None:
    """Return the origins that an interface may use, as its resource is listed; ``None`` if it does not say so there."""
    meta = next((resource.meta for resource in resources if resource.uri == uri), None)
    csp = read_ui(meta).get("csp")
    if not isinstance(csp, dict):
        return None
    lists = (cast("dict[str, object]", csp).get(name) for name in CSP_MEMBERS)
    return tuple(str(origin) for each in lists if isinstance(each, list) for origin in cast("list[object]", each))
