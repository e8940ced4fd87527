"""What a check finds, the rules that it goes by, and the definitions of a server as it lists them.

The rules stand in ``rules/*.toml``, one file for each subject. A rule is an error only where the specification says
MUST; all else is advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from antiphon.wire.envelope import encode_value

MAX_SEEN = 400
"""Most characters that a finding shows of a message: a few lines of a terminal."""
SPECIFICATION = "https://modelcontextprotocol.io/specification"
Level = Literal["error", "advice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRule:
    """What a server is checked for."""

    id: str
    """Its subject and its name, with a point between them."""
    level: Level
    """An ``error`` breaks a MUST of the specification; ``advice`` is anything else."""
    title: str
    """What is wrong, as one sentence."""
    why: str
    """What it costs those who use the server."""
    remedy: str
    """How the author of the server mends it."""
    section: str = ""
    """The page of the specification below its revision, such as ``basic/lifecycle``; empty for plain advice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place where a server breaks a rule.

    Args:
        rule: the id of the rule.
        place: a method and the member of its message, a stream, or a file.
        seen: what was there, with a bounded piece of the message.
        revision: the revision that was spoken; empty, the default, if none was.
    """

    rule: str
    place: str
    seen: str
    revision: str = ""

    @property
    def level(self) -> Level:
        """The level of its rule."""
        return find_rule(self.rule).level

    @property
    def source(self) -> str:
        """The address of the section that says so; ``advice`` where the specification does not."""
        section = find_rule(self.rule).section
        if not section:
            return "advice"
        return f"{SPECIFICATION}/{self.revision}/{section}" if self.revision else f"specification: {section}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDefinitions:
    """What a server says of itself on one revision, as it came: any member may have the wrong type."""

    revision: str
    opening: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The result of ``initialize``, or of ``server/discover``."""
    tools: tuple[Any, ...] = ()
    resources: tuple[Any, ...] = ()
    templates: tuple[Any, ...] = ()
    prompts: tuple[Any, ...] = ()

    @property
    def instructions(self) -> str:
        """The instructions for a model; empty if there are none, or if they are no text."""
        found = self.opening.get("instructions")
        return found if isinstance(found, str) else ""


@cache
def load_rules() -> Mapping[str, CheckRule]:
    """Return all rules by their ids: subject by subject, in the order of their files."""
    # Imported here, because a program that only imports this module may never check a server.
    import tomllib

    rules: dict[str, CheckRule] = {}
    for path in sorted((Path(__file__).parent / "rules").glob("*.toml")):
        for subject, named in tomllib.loads(path.read_text(encoding="utf-8")).items():
            rules |= {f"{subject}.{name}": CheckRule(id=f"{subject}.{name}", **one) for name, one in named.items()}
    return rules


def find_rule(rule: str) -> CheckRule:
    """Return the rule of this id; raises ``KeyError`` for any other text."""
    return load_rules()[rule]


def excerpt_of(value: object) -> str:
    """Return a text, or a value as JSON, on one line, and cut in its middle if it is long. It is not inert."""
    if isinstance(value, bytes):
        text = value[: 4 * MAX_SEEN].decode(errors="replace")
    else:
        text = value if isinstance(value, str) else encode_value(value).decode()
    if len(text) > MAX_SEEN:
        text = f"{text[: MAX_SEEN * 3 // 4]} ... {text[-MAX_SEEN // 5 :]}"
    return " ".join(text.split())


def name_place(method: str, member: str, at: int, name: object = None) -> str:
    """Name an item of a list: ``tools/list: tools[3] "add"``."""
    shown = f" {excerpt_of(encode_value(name[:80]).decode())}" if isinstance(name, str) else ""
    return f"{method}: {member}[{at}]{shown}"
