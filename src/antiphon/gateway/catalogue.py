"""What all servers behind a gateway offer, under the gateway's names, with their owners.

Sans-IO: made again from the offers whenever one of them changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct, structs

from antiphon.errors import ConfigError
from antiphon.gateway.names import Style, exposed, server_names
from antiphon.gateway.offer import Offer
from antiphon.server.features.uri_template import UriTemplate
from antiphon.wire.prompts import Prompt
from antiphon.wire.resources import Resource, ResourceTemplate
from antiphon.wire.tools import Tool

__all__ = ["Catalogue", "Noun", "Owned"]

Noun = Literal["tool", "prompt"]

Named = TypeVar("Named", Tool, Prompt)


class Owned(Struct, frozen=True):
    """Something that a server owns, by its name there."""

    server: str
    name: str


class Catalogue:
    """The tools, prompts, resources and templates of all servers, in the order of configuration.

    ``offers``: by the name of the server. ``style``: how tools and prompts are named. Resources keep their URIs; if two
    servers have the same one, the first server serves it.
    """

    def __init__(self, offers: Mapping[str, Offer], style: Style) -> None:
        self._words = server_names(offers)
        self.tools, self._tools = self._named({name: offer.tools for name, offer in offers.items()}, style)
        self.prompts, self._prompts = self._named({name: offer.prompts for name, offer in offers.items()}, style)
        self.resources: list[Resource] = []
        self.templates: list[ResourceTemplate] = []
        self._resources: dict[str, str] = {}
        self._templates: dict[str, str] = {}
        self._patterns: list[tuple[UriTemplate, str]] = []
        for name, offer in offers.items():
            for resource in offer.resources:
                if self._resources.setdefault(resource.uri, name) == name:
                    self.resources.append(resource)
            for template in offer.templates:
                if self._templates.setdefault(template.uri_template, name) == name:
                    self.templates.append(template)
                    self._patterns.extend((pattern, name) for pattern in _patterns(template.uri_template))

    def find(self, noun: Noun, name: str) -> Owned | None:
        """Return the owner of this tool or prompt."""
        return (self._tools if noun == "tool" else self._prompts).get(name)

    def reader(self, uri: str) -> str | None:
        """Return the server that listed this URI, or else the first with a matching template."""
        listed = self._resources.get(uri)
        fitting = (server for pattern, server in self._patterns if pattern.match(uri) is not None)
        return listed or next(fitting, None)

    def template(self, uri_template: str) -> str | None:
        """Return the server that listed this template."""
        return self._templates.get(uri_template)

    def _named(self, offered: Mapping[str, Sequence[Named]], style: Style) -> tuple[list[Named], dict[str, Owned]]:
        count = Counter(item.name for items in offered.values() for item in items)
        shown: list[Named] = []
        owned: dict[str, Owned] = {}
        for server, items in offered.items():
            for item in items:
                alone = style == "none" and count[item.name] == 1
                name = item.name if alone else exposed(self._words[server], item.name)
                if name not in owned:
                    owned[name] = Owned(server, item.name)
                    shown.append(item if alone else _renamed(item, name))
        return shown, owned


def _patterns(template: str) -> list[UriTemplate]:
    try:
        return [UriTemplate(template)]
    except ConfigError:
        # Still listed, for clients that can use it; this gateway does not match URIs with it.
        return []


def _renamed(item: Any, name: str) -> Any:
    return structs.replace(item, name=name)
