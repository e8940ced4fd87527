"""What all servers behind a gateway offer: each item with its server, under the gateway's names.

Pure. A new catalogue is made whenever the offer of a server changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

from msgspec import Raw, Struct, structs

from antiphon.errors import ConfigError
from antiphon.gateway.names import (
    ALL,
    Filters,
    NameSettings,
    Style,
    UriClaim,
    UriOwners,
    expose_name,
    find_refused_claims,
    fold_name,
    is_plain,
    mark_name,
    server_names,
)
from antiphon.gateway.offer import Definition, UpstreamOffer, make_outer_uri, place_of, rewrite_entry, split_outer_uri
from antiphon.server.features.uri_template import UriTemplate
from antiphon.wire.apps import find_app_uri
from antiphon.wire.common import LEFT_OUT
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.lossless import Received, merge_change
from antiphon.wire.prompts import ListPromptsResult, Prompt
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult, Resource, ResourceTemplate
from antiphon.wire.skills import SKILLS, find_skill_root
from antiphon.wire.tools import ListToolsResult, Tool

Noun = Literal["tool", "prompt"]

Named = TypeVar("Named", Tool, Prompt)


Lists = ListToolsResult | ListPromptsResult | ListResourcesResult | ListResourceTemplatesResult

_ITEMS = {
    "tools": "tools", "prompts": "prompts", "resources": "resources", "resource_templates": "resourceTemplates",
}  # fmt: skip
"""The member that holds the items in the result of each list: as an attribute, and on the wire."""


class ServerItem(Struct, frozen=True):
    """A tool or a prompt by its server, and by the server's own name of it."""

    server: str
    name: str


class Conflict(Struct, frozen=True):
    """Two names that are equal or look alike, and the new name of the second one."""

    first: ServerItem
    second: ServerItem
    called: str
    """The name of the second behind the gateway."""

    def __str__(self) -> str:
        """Describe the conflict in a sentence."""
        one, other = self.first, self.second
        if one.server == other.server:
            return f"{other.name} of {other.server} cannot be shown by that name alone, and is called {self.called}"
        return f"{other.name} of {other.server} looks like {one.name} of {one.server}, and is called {self.called}"


class Exposure(Struct, kw_only=True):
    """What clients see of the servers; the filters can change while the gateway runs."""

    given: NameSettings = NameSettings()
    filters: Filters = ALL
    off: frozenset[tuple[str, str]] = frozenset()
    """Tools that a person has switched off: the identity of the server, and the server's own name of the tool."""
    owners: UriOwners = UriOwners()
    """The owners of URIs that the configuration names."""
    is_searched: bool = False
    """Whether clients search among the tools instead of listing them."""


class ServerCatalogue:
    """The tools, prompts, resources and templates of all servers, in the order of configuration.

    ``offers``: by the name of the server. ``exposure``: which tools there are, and how they are called; another tool is
    neither listed nor found. ``left_out``: servers that were never listed. Resources keep their URIs; of several
    servers' URIs and templates that overlap none is served, see ``names``.
    """

    def __init__(self, offers: Mapping[str, UpstreamOffer], exposure: Exposure, left_out: Sequence[str] = ()) -> None:
        self.meta: dict[str, Any] | None = {LEFT_OUT: [*left_out]} if left_out else None
        """The ``_meta`` of each list."""
        given = exposure.given
        self._words = server_names(offers, given.prefixes)
        self.conflicts: list[Conflict] = []
        """The items whose names had to be changed because of another item."""
        self._origins: dict[str, tuple[str, Definition]] = {}
        """The server of each item that is listed, and the server's own definition of it, by its place here."""
        self.encoded: dict[str, Received] = {}
        """The encoded list of tools by revision: encoding a thousand definitions is most of the work of a list."""
        passing = {
            name: [tool for tool in offer.tools if exposure.filters.passes(name, tool.name)]
            for name, offer in offers.items()
        }
        self.tools = self._name_items(passing, given)
        prompts = {name: offer.prompts for name, offer in offers.items()}
        self.prompts = self._name_items(prompts, NameSettings(style=given.style, prefixes=given.prefixes))
        self._definitions = {tool.name: tool for tool in self.tools}
        self._originals = {
            (name, place): raw for name, offer in offers.items() for place, raw in offer.originals.items()
        }
        self._listed: dict[type[Lists], Received] = {}
        """The lists with all members, known or not, made when they are first requested."""
        self.resources: list[Resource] = []
        self.templates: list[ResourceTemplate] = []
        self._skilled = {self._words[name]: name for name, offer in offers.items() if SKILLS in offer.extensions}
        """The servers with skills, by their words."""
        self.skills = [
            rewrite_entry(entry, word) for word, name in self._skilled.items() for entry in offers[name].skills
        ]
        """The skills of all servers, by URIs that begin with the words of the servers."""
        self._patterns: list[tuple[UriTemplate, UriClaim]] = []
        self._owners = exposure.owners
        claims = {claim: item for name, offer in offers.items() for claim, item in self._list_claims(name, offer)}
        self._claims = claims.keys()
        self._refused = find_refused_claims([*claims], exposure.owners)
        self.overlaps = [*self._refused.values()]
        """The resources and templates that are not served, because another server has some that may overlap."""
        for claim, item in claims.items():
            self._patterns.extend((pattern, claim) for pattern in _list_patterns(claim))
            if item is None or claim in self._refused:
                continue
            self._origins[f"{'templates' if claim.is_template else 'resources'} {claim.text}"] = claim.server, item
            if isinstance(item, ResourceTemplate):
                self.templates.append(item)
            else:
                self.resources.append(item if item.uri == claim.text else structs.replace(item, uri=claim.text))

    def find(self, noun: Noun, name: str) -> ServerItem | None:
        """Return the owner of this tool or prompt."""
        owned = self._origins.get(f"{noun}s {name}")
        return None if owned is None else ServerItem(owned[0], owned[1].name)

    def find_skill_file(self, uri: str) -> tuple[str, str, str] | None:
        """Return the server of a skill's file, its word in URIs, and its own URI of the file."""
        word, inner = split_outer_uri(uri) or ("", "")
        return (self._skilled[word], word, inner) if word in self._skilled else None

    def tool(self, name: str) -> Tool | None:
        """Return the definition of the tool of this name."""
        return self._definitions.get(name)

    def names_of(self, server: str) -> dict[str, str]:
        """Return the gateway's names of a server's tools, by the server's own names."""
        origins = ((name, self._origins[f"tools {name}"]) for name in self._definitions)
        return {item.name: name for name, (owner, item) in origins if owner == server}

    def listed(self, result: Lists) -> Received | None:
        """Return a list with all members of its definitions, known or not; ``None`` if none has an unknown one."""
        if not self._originals:
            return None
        if result.__class__ not in self._listed:
            member = next(name for name in result.__struct_fields__ if name in _ITEMS)
            items = [self._whole(item) for item in getattr(result, member)]
            raw = Raw(encode_value({_ITEMS[member]: items, **({"_meta": self.meta} if self.meta else {})}))
            self._listed[result.__class__] = Received(raw, decode_wire(raw, result.__class__))
        return self._listed[result.__class__]

    def _whole(self, item: Definition) -> Raw:
        """Return a definition as its server gave it, under the name that it has here."""
        server, before = self._origins[place_of(item)]
        original = self._originals.get((server, place_of(before)))
        return Raw(encode_value(item) if original is None else merge_change(original, before, item))

    def reader(self, uri: str) -> str | None:
        """Return the server that listed this URI, or a template that matches it; ``None`` unless it is one server."""
        served = [claim for claim in self._fitting(uri) if claim not in self._refused]
        owned = [claim for claim in served if self._owners.has(claim)]
        servers = {claim.server for claim in owned or served}
        return servers.pop() if len(servers) == 1 else None

    def refusal(self, text: str) -> str:
        """Return why no server serves this URI or template, to be appended to a message; empty if none has it."""
        claims = (*self._fitting(text), *(claim for claim in self._refused if claim.text == text))
        overlap = next((self._refused[claim] for claim in claims if claim in self._refused), None)
        return f": {overlap}" if overlap is not None else ""

    def _fitting(self, uri: str) -> list[UriClaim]:
        listed = [claim for server in self._words if (claim := UriClaim(server, uri, False)) in self._claims]
        return listed + [claim for pattern, claim in self._patterns if pattern.match(uri) is not None]

    def template(self, uri_template: str) -> str | None:
        """Return the server that listed this template."""
        owned = self._origins.get(f"templates {uri_template}")
        return None if owned is None else owned[0]

    def _list_claims(
        self, server: str, offer: UpstreamOffer
    ) -> Iterator[tuple[UriClaim, Resource | ResourceTemplate | None]]:
        roots = tuple(f"{find_skill_root(skill.uri)}/" for skill in offer.skills)
        for item in offer.resources:
            uri = item.uri
            if SKILLS in offer.extensions and uri.startswith(("skill://", *roots)):
                uri = make_outer_uri(self._words[server], uri)
            yield UriClaim(server, uri, False), item
        yield from ((UriClaim(server, item.uri_template, True), item) for item in offer.templates)
        # Servers need not list the interfaces of their tools among their resources.
        listed = {item.uri for item in offer.resources}
        for uri in {find_app_uri(tool) for tool in offer.tools} - listed - {""}:
            yield UriClaim(server, uri, False), None

    def _name_items(self, offered: Mapping[str, Sequence[Named]], given: NameSettings) -> list[Named]:
        items: dict[ServerItem, Named] = {}
        for server, offers in offered.items():
            for item in offers:
                items.setdefault(ServerItem(server, item.name), item)
        by_hand = {
            owned: name for owned in items if (name := given.renamed.get(owned.server, {}).get(owned.name)) is not None
        }
        names = self._apart(items, given.style, by_hand)
        shown: list[Named] = []
        for owned, item in items.items():
            here = item if names[owned] == item.name else structs.replace(cast("Any", item), name=names[owned])
            # Only two names of one server can still be equal, if their digests are: the first one is kept.
            if place_of(here) not in self._origins:
                self._origins[place_of(here)] = owned.server, item
                shown.append(here)
        return shown

    def _apart(
        self, items: Iterable[ServerItem], style: Style, by_hand: Mapping[ServerItem, str]
    ) -> dict[ServerItem, str]:
        """Return a name for each, so that no two servers have names that look alike, whatever their order."""
        prefixed = {owned: expose_name(self._words[owned.server], owned.name) for owned in items}
        names = {**prefixed, **(self._list_unprefixed(prefixed) if style == "none" else {}), **by_hand}
        alike: dict[str, list[ServerItem]] = {}
        for owned, name in names.items():
            alike.setdefault(fold_name(name), []).append(owned)
        for several in alike.values():
            if len({owned.server for owned in several}) == 1:
                continue
            # A name given by hand is kept; else that of the server with the longest word, which begins the name.
            keeper = max(several, key=lambda owned: (owned in by_hand, len(self._words[owned.server]), owned.server))
            for owned in several:
                if owned.server != keeper.server:
                    names[owned] = mark_name(self._words[owned.server], owned.name)
                    self.conflicts.append(Conflict(keeper, owned, names[owned]))
        return names

    def _list_unprefixed(self, prefixed: Mapping[ServerItem, str]) -> dict[ServerItem, str]:
        """Return the items that can keep their server's name, because no name of another server looks like it."""
        servers: dict[str, set[str]] = {}
        for owned, name in prefixed.items():
            for said in (owned.name, name):
                servers.setdefault(fold_name(said), set()).add(owned.server)
        others = {
            server: {fold_name(self._words[name]) for name in self._words if name != server} for server in self._words
        }
        plain: dict[ServerItem, str] = {}
        for owned in prefixed:
            holders = servers[fold_name(owned.name)]
            if len(holders) == 1 and is_plain(owned.name, others[owned.server]):
                plain[owned] = owned.name
            else:
                rival = next((name for name in sorted(holders) if name != owned.server), owned.server)
                self.conflicts.append(Conflict(ServerItem(rival, owned.name), owned, prefixed[owned]))
        return plain


def _list_patterns(claim: UriClaim) -> list[UriTemplate]:
    try:
        return [UriTemplate(claim.text)] if claim.is_template else []
    except ConfigError:
        # Still listed, for clients that can use it; this gateway does not match URIs with it.
        return []
