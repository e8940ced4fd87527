"""Labels of tools: what their results and calls carry, and when all that is needed to steal data meets in a session.

Pure. Owns what a label means, who gives it, and the rule about all three. ``pipeline.case`` remembers what has flowed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal, get_args

import msgspec

from antiphon.host.checks.ask_limits import check_options
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolResult, Tool

Label = Literal["private", "untrusted", "outbound"]
"""``private``: reads what is yours. ``untrusted``: brings text of strangers. ``outbound``: can send."""
_LINK = re.compile(r"(?:https?://|www[.])[\w./?=&%#~:;,+@!$-]{1,500}+", re.ASCII)
MAX_LINKS = 100
"""Most addresses of a session that are remembered. Few: who has prepared many learns by which of them is fetched."""
MAX_SEARCHED = 100_000
"""Most characters of a result in which addresses are looked for."""
LABELS: tuple[Label, ...] = get_args(Label)
SessionLabels = tuple[frozenset[Label], frozenset[Label]]
"""What a run has read, and what was read outside of all runs."""
FLOWING: frozenset[Label] = frozenset({"private", "untrusted"})
"""The labels of what a session has read, which stays in the model's context."""


class LabelRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The labels of the tools that it covers; the first rule that covers a tool counts."""

    labels: tuple[Label, ...]
    """All labels that the tools have; none if empty."""
    name: str = "*"
    """Glob over the server's own name of the tool."""
    server: str = "*"
    """Glob over the server's identity, or a coarser one."""

    def __post_init__(self) -> None:
        check_options(self)


def covers_tool(names: str, servers: str, name: str, origin: Origin) -> bool:
    """Return whether the globs of a rule, over names of tools and identities of servers, match a tool of a server."""
    return fnmatchcase(name, names) and any(fnmatchcase(each, servers) for each in origin.identities)


def find_labels(
    rules: Sequence[LabelRule], name: str, origin: Origin, given: Collection[Label] | None
) -> frozenset[Label]:
    """Return the labels of a tool: by a rule, else as a person ``given`` them, else as its server claims."""
    for rule in rules:
        if covers_tool(rule.name, rule.server, name, origin):
            return frozenset(rule.labels)
    return claim_labels(origin.tool) if given is None else frozenset(given)


def claim_labels(tool: Tool | None) -> frozenset[Label]:
    """Return the labels that follow from a server's annotations: all three where it does not say how far it reaches."""
    hints = None if tool is None else tool.annotations
    if hints is None or hints.open_world_hint is None:
        return frozenset(LABELS)
    return frozenset({"untrusted", "outbound"}) if hints.open_world_hint else frozenset({"private"})


def list_links(result: CallToolResult) -> Iterator[str]:
    """Yield the web addresses at the beginning of a result's text, without the punctuation after them."""
    return (found[0].rstrip(".,:;!?") for found in _LINK.finditer(result.text[:MAX_SEARCHED]))


def meets_all(labels: frozenset[Label], flowed: frozenset[Label]) -> bool:
    """Return whether a call could send private data by order of a stranger: all three labels meet in the session."""
    # A tool that has all three needs no other one.
    return len(labels) == len(LABELS) or ("outbound" in labels and flowed >= FLOWING)
