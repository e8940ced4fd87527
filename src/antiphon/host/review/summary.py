"""A review in few words, the same on every surface: one line, who asks at which cost, and the rows of the queue.

Owns short names and durations as people read them, the order and filters of rows, and the shared catalogues of texts
(``languages/*.json``), which those of a surface extend. The surface makes a server's texts inert.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from antiphon.host.budget import Costs, format_dollars
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.risk import Risk, split_address
from antiphon.host.checks.visible import replace_hidden
from antiphon.host.review.diff import format_json
from antiphon.host.review.question import Outcome, Question
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem
from antiphon.wire.content import TextContent, ToolResultContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.origin import Origin, OriginTask
from antiphon.wire.sampling import SamplingMessage

_NAME = 40
"""Most characters of a server's short name."""
_WHOLE_NAME = 200
"""Characters of a stranger's name that are shown; the message as it came has the whole."""
_WORDS = 120
"""Most characters of a message in a list; the request itself is shown completely."""
_WINDOW = 2_000
"""Number of characters searched at once for readable text."""
_WINDOWS = 10
"""Most such windows; a text hidden behind more blank space than this has no first words."""
_RUNNERS = frozenset(["python", "pypy", "node", "deno", "bun", "npx", "bunx", "uvx", "pipx", "uv", "env", "sh", "bash"])
"""Programs that run another one, by which the server is named."""
_NAMING = frozenset(["-m", "--module", "--package", "--from"])
"""Options of such programs whose value names what is run."""
_WITH_VALUE = frozenset(["--with", "--directory", "--python", "-X", "-W"])
"""Options of such programs with any other value."""
_VERSION = re.compile(r"[\d.]*(?:\.exe)?$")
_BLANK = re.compile(r"\s+")


def server_name(target: str, kind: str) -> str:
    """Shorten a configured command line or URL to a name for the server; one in this process has a name."""
    if kind == "memory":
        return target[:_NAME]
    if kind == "url":
        try:
            parts = urlsplit(target)
        except ValueError:
            return target[:_NAME]
        return f"{parts.netloc}{parts.path.rstrip('/')}"[:_NAME]
    try:
        words = shlex.split(target)
    except ValueError:
        words = target.split()
    return (_name_program(words) or target)[:_NAME]


def cut_name(text: str) -> str:
    """Cut a stranger's name where nobody reads on, and count the rest: browsers lay such lines out for seconds."""
    return text if len(text) <= _WHOLE_NAME else f"{text[:_WHOLE_NAME]}\u2026 (+{len(text) - _WHOLE_NAME:,})"


def host_of(url: str) -> str:
    """Return the host of an address with its port, as a browser would interpret it; empty if there is none."""
    try:
        parts = split_address(url)
        port = parts.port
    except ValueError:
        return ""
    return f"{parts.hostname or ''}{'' if port is None else f':{port}'}"


def format_time_left(seconds: float, words: Texts) -> str:
    """Format the time that is left: ``9:59``, ``2h05``, or a text that it is over."""
    if seconds <= 0:
        return words("clock.over")
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"


def format_duration(seconds: float, words: Texts) -> str:
    """Format a duration in its largest unit: ``12 s``, ``4 min``, ``3 h``, ``2 d``."""
    whole = max(0, int(seconds))
    units: Sequence[tuple[Literal["s", "min", "h", "d"], int]] = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    unit, size = next((each for each in units if whole >= each[1]), ("s", 1))
    return words(f"span.{unit}", n=whole // size)


def first_words(item: ReviewItem | ElicitItem | ToolItem | None) -> str:
    """Return the beginning of what is new in a request, in one line, without what an earlier request has shown.

    New is an answer, or what follows the model's last turn. Blanks and invisible characters are left out, so that they
    cannot push the text out of sight; in the name of a tool they stay, since another may have the name without them.
    """
    if item is None:
        return ""
    if isinstance(item, ToolItem):
        return item.params.name.strip()[:_WORDS]
    if isinstance(item, ElicitItem):
        return _join_line(item.params.message)
    for text in _new_texts(item):
        if said := _join_line(text):
            return said
    last = item.result or item.params.messages[-1]
    return type(last.blocks[0] if last.blocks else last).__name__.removesuffix("Content").lower()


def outcome_text(outcome: Outcome, words: Texts) -> str:
    """Say what became of a decision, as far as it is known."""
    why = f"outcome.why.{outcome.why}"
    said = words(f"outcome.{outcome.became}")
    return f"{said} {words(why) if words.has(why) else f'({outcome.why})'}" if outcome.why else said


def _new_texts(item: ReviewItem) -> Iterator[str]:
    if item.result is not None:
        yield item.result.text
        return
    messages = item.params.messages
    answered = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=-1)
    new = messages[answered + 1 :] or messages[-1:]
    for message in new:
        yield from _list_texts(message)


def _list_texts(message: SamplingMessage) -> Iterator[str]:
    for block in message.blocks:
        if isinstance(block, TextContent):
            yield block.text
        elif isinstance(block, ToolResultContent):
            yield from (each.text for each in block.content if isinstance(each, TextContent))


def _join_line(text: str) -> str:
    """Return the readable beginning of a text, as one line."""
    text = text.lstrip()
    for at in range(0, min(len(text), _WINDOW * _WINDOWS), _WINDOW):
        seen = _BLANK.sub(" ", replace_hidden(text[at : at + _WINDOW], lambda _char: "")).strip()
        if seen:
            return seen[:_WORDS]
    return ""


def _name_program(words: Sequence[str]) -> str:
    skipped = False
    for at, word in enumerate(words):
        if word in _NAMING and at + 1 < len(words):
            return words[at + 1]
        if skipped or word.startswith("-") or "=" in word.partition("/")[0]:
            skipped = word in _WITH_VALUE
            continue
        name = word.replace("\\", "/").rstrip("/").rpartition("/")[2]
        if _VERSION.sub("", name).lower() in _RUNNERS or (name in ("run", "tool", "exec") and at):
            continue
        # A package of npm has its scope in front; a path is named by its last part.
        return word if word.startswith("@") else name
    return words[-1].rpartition("/")[2] if words else ""


LANGUAGES = {"en": "English", "zh": "简体中文"}
"""Each language by the name of its catalogue, with its name for itself."""
_FOLDER = Path(__file__).parent / "languages"
_FACTS = re.compile(r"\((?P<list>[^()]*)\)|: (?P<kind>[^:(]+)|(?P<number>\d+(?:,\d{3})*)")
_KIND = re.compile(r"(?P<number>\d+) (?P<kind>[a-z-]+)")
"""One of a list, such as ``2 bidi``."""


class Texts:
    """The texts in one language."""

    def __init__(self, language: str, catalogue: Mapping[str, str]) -> None:
        self.language = language
        """``"en"`` or ``"zh"``."""
        self.tag = {"zh": "zh-Hans"}.get(language, language)
        """The tag for HTML and browsers."""
        self._catalogue = catalogue

    def __call__(self, key: str, **values: object) -> str:
        """Return a text; ``values`` replace its ``{placeholders}``.

        Raises ``KeyError``: the catalogue does not have it, or it needs another value.
        """
        text = self._catalogue[key]
        return text.format_map(values) if values else text

    def pieces(self, key: str) -> Iterator[tuple[str, str]]:
        """Yield a text in pieces, each with the name of the placeholder that follows it; empty at the end."""
        for text, name, _, _ in string.Formatter().parse(self._catalogue[key]):
            yield text, name or ""

    def has(self, key: str) -> bool:
        """Tell whether there is such a text."""
        return key in self._catalogue

    def risk(self, risk: Risk) -> str:
        """Return the text of a risk. The host words it in English, with the numbers that are inserted here."""
        if self.language == "en":
            return risk.text
        facts = {"number": "", "list": "", "kind": ""}
        for found in _FACTS.finditer(risk.text):
            name = found.lastgroup or "number"
            facts[name] = facts[name] or found[name].strip()
        facts["list"] = _KIND.sub(self._count_characters, facts["list"]).replace(", ", "、")
        return self(f"risk.{risk.kind}", **facts)

    def _count_characters(self, found: re.Match[str]) -> str:
        """Return the text for a number of characters of one kind."""
        key = f"hidden.{found['kind']}"
        return self(key, n=found["number"]) if self.has(key) else found[0]


@cache
def load_texts(language: str, *own: Path) -> Texts:
    """Return the texts of a language: the shared ones, extended by those in the folders ``own`` in turn.

    English for an unknown language: names from outside are never used to look up files.
    """
    name = language if language in LANGUAGES else "en"
    words: dict[str, str] = {}
    for folder in (_FOLDER, *own):
        words |= msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=dict[str, str])
    return Texts(name, words)


def choose_language(chosen: str | None, accepted: str) -> str:
    """Choose the language: the one a person chose, else the first known one in ``Accept-Language``."""
    if chosen in LANGUAGES:
        return chosen
    for part in accepted.split(","):
        language = part.partition(";")[0].strip().lower().partition("-")[0]
        if language in LANGUAGES:
            return language
    return "en"


def terminal_language(chosen: str | None) -> str:
    """Choose the language: the one that was requested, else that of the terminal's locale (POSIX, 8.2)."""
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := os.environ.get(name))), "")
    return choose_language(chosen, locale.partition(".")[0].replace("_", "-"))


_DIGITS = 12
"""Hexadecimal digits of an identity that are shown: enough to distinguish a user's servers."""
_LINE = 80
"""Most characters of arguments shown in one line; more are shown on several lines."""


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and for what."""

    target: str
    name: str
    """The short name of the server: its script, package or host."""
    kind: str
    """``"command"`` or ``"url"``."""
    short: str
    identity: str
    claims: str
    """The name that the server declares; empty if it declares none."""
    call: str
    """Method and name of the client's call; empty in the background."""
    arguments: str
    round: tuple[int, int] | None
    task: OriginTask | None = None
    """The task that the call has become; secrets in the server's status message are masked."""
    door: str = ""
    """The way it came, if it was not a message of the protocol: ``"model-api"``."""
    unclear: bool = False
    """Whether it may belong to one of several calls."""

    @property
    def subject(self) -> str:
        """The name of the tool or prompt that is called, else the method."""
        return self.call.partition(" ")[2] or self.call

    @property
    def kind_key(self) -> str:
        """The key of the words for how the server is reached."""
        return f"who.kind.{self.kind if self.kind in ('url', 'memory') else 'command'}"

    @property
    def without_call(self) -> str:
        """The key of the words that stand in the place of the call, if there is none."""
        return "who.unclear" if self.unclear else "who.background"


def who_of(origin: Origin) -> Who:
    """Collect who asks, and for what."""
    kind, _, digits = origin.identity.partition(":")
    call = origin.call
    line = encode_value(call.arguments).decode("utf-8", "replace") if call and call.arguments is not None else ""
    return Who(
        target=(target := mask_text(origin.target)),
        name=server_name(target, kind),
        kind=kind,
        short=digits[:_DIGITS],
        identity=origin.identity,
        claims=f"{origin.server.name} {origin.server.version}".rstrip() if origin.server else "",
        call=f"{call.method} {call.name or ''}".rstrip() if call else "",
        arguments=line if call is None or len(line) <= _LINE else format_json(call.arguments),
        round=(origin.round.n, origin.round.max) if origin.round else None,
        task=None if (task := origin.task) is None else msgspec.structs.replace(task, says=mask_text(task.says)),
        door=origin.door or "",
        unclear=origin.unclear,
    )


def task_text(task: OriginTask, words: Texts, now: float) -> str:
    """Say in one line how old a task is, how often it has asked, and what that has cost; all of it is known here.

    ``now``: seconds since the epoch.
    """
    since = task.started if task.started is not None else task.first
    age = "who.task_started" if task.started is not None else "who.task_seen"
    parts = [words("who.task") if since is None else words(age, age=format_duration(now - since, words))]
    if not task.asks:
        parts.append(words("who.task_first"))
    else:
        parts.append(words("who.task_ask" if task.asks == 1 else "who.task_asks", n=task.asks))
        tokens = words("who.task_tokens", n=task.tokens) if task.tokens else words("who.task_free")
        parts.append(words("who.task_cost", cost=format_dollars(task.money)) if task.money else tokens)
    return " · ".join(parts)


def round_text(number: int, words: Texts) -> str:
    """Say which question of its call this is."""
    key = f"who.round.{number}"
    return words(key) if words.has(key) else words("who.round", n=number)


def headline_of(who: Who, costs: Costs | None, words: Texts) -> str:
    """Return one line: who asks, for what, at which cost. Not inert: the names come from the server."""
    parts = [who.name, cut_name(who.subject) or words(who.without_call)]
    if who.task:
        parts.append(words("who.task"))
    if who.round:
        parts.append(round_text(who.round[0], words))
    if costs is not None:
        worst, left = format_dollars(costs.worst.money), costs.left
        parts.append(
            words("cost.at_most", worst=worst)
            if left is None
            else words("cost.at_most_of", worst=worst, left=format_dollars(left, rounding="down"))
        )
    return " · ".join(parts)


Order = Literal["time", "risk", "cost", "newest", "expiry"]
ORDERS: tuple[Order, ...] = ("time", "risk", "cost", "newest", "expiry")
"""The ways to sort a queue; the first is the default."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One question in the queue."""

    id: str
    kind: str
    tool: str
    """The tool or prompt whose call asks; empty in the background."""
    summary: str
    """The first words of what is new in it."""
    warnings: int
    created: float
    expires: float | None
    worst: int | None = None
    """The most it may cost, in nano-dollars; ``None`` if unknown, or if no model is asked."""
    model: str = ""
    """The model that answers, or the provider; empty if none is asked."""
    hash: str = ""
    """Hash of all that is shown of it; a decision names it."""
    waited_for: bool = True
    """Whether the process that asked still runs."""
    in_task: bool = False
    """Whether the call has become a task."""
    destroys: bool = False
    """Whether the server says that it may destroy something."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A row, and the group it belongs to."""

    row: Row
    who: Who
    group: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The questions of one server, or of one round of a call."""

    who: Who
    rows: tuple[Row, ...]
    key: str = ""
    """Names the server or the round."""


def listed(question: Question, *, by_server: bool = False) -> Listed | None:
    """Make the row of a question; ``None`` if its content is not kept any more."""
    if question.item is None:
        return None
    group = question.identity if by_server else question.group
    return Listed(row=_make_row(question), who=who_of(question.item.origin), group=group)


def group_rows(rows: Iterable[Listed]) -> list[Group]:
    """Group rows, oldest first."""
    found: dict[str, list[Listed]] = {}
    for each in rows:
        found.setdefault(each.group, []).append(each)
    return [
        Group(who=together[0].who, rows=tuple(each.row for each in together), key=key)
        for key, together in found.items()
    ]


def groups_of(questions: Sequence[Question], *, by_server: bool = False) -> list[Group]:
    """Group questions by round, or by server, oldest first."""
    rows = (listed(question, by_server=by_server) for question in questions)
    return group_rows(row for row in rows if row is not None)


def arrange_rows(groups: Iterable[Group], order: Order, wanted: str, only: str = "") -> list[Group]:
    """Return the groups with a matching row, sorted by age, time left, risks or cost."""
    sought = wanted.casefold()
    found: list[Group] = []
    for group in groups:
        head = f"{group.who.name} {group.who.target} {group.who.call}".casefold()
        kept = [row for row in group.rows if only in ("", row.kind) or (only == "risk" and row.warnings)]
        rows = tuple(row for row in kept if sought in head or sought in f"{row.tool} {row.summary}".casefold())
        if rows:
            found.append(Group(who=group.who, rows=tuple(sorted(rows, key=_PLACES[order])), key=group.key))
    return sorted(found, key=lambda group: _PLACES[order](group.rows[0]))


def first_rows(groups: Iterable[Group], most: int) -> list[Group]:
    """Return the groups with so many rows at most, the first ones."""
    found: list[Group] = []
    for group in groups:
        if most > 0:
            found.append(msgspec.structs.replace(group, rows=group.rows[:most]))
        most -= len(group.rows)
    return found


def _make_row(question: Question) -> Row:
    item = question.item
    risks = item.risks if item else ()
    call = item.origin.call if item else None
    costs = item.costs if isinstance(item, ReviewItem) and item.result is None else None
    return Row(
        id=question.id,
        kind=question.kind,
        tool=(call.name or call.method) if call else "",
        summary=first_words(item),
        warnings=sum(risk.level == "warning" for risk in risks),
        created=question.created,
        expires=question.expires,
        worst=None if costs is None else costs.worst.money,
        model=(item.model or item.provider) if isinstance(item, ReviewItem) else "",
        hash=question.hash,
        waited_for=question.waited_for,
        in_task=item is not None and item.origin.task is not None,
        destroys=any(risk.kind == "destructive" for risk in risks),
    )


_PLACES: dict[Order, Callable[[Row], tuple[float, object]]] = {
    "time": lambda row: (row.created, row.id),
    "newest": lambda row: (-row.created, row.id),
    "expiry": lambda row: (math.inf if row.expires is None else row.expires, row.created),
    "risk": lambda row: (-row.warnings, row.created),
    "cost": lambda row: (-(row.worst or 0), row.created),
}
