"""Who asks, for what and at which cost, for all surfaces: the values, and one line that sums them up.

Pure. The surface makes texts of a server or a user inert.
"""

from __future__ import annotations

import msgspec

from antiphon.host.budget import Costs, rounded_dollars
from antiphon.host.checks.redact import mask
from antiphon.host.review.diff import pretty
from antiphon.host.review.summary import server_name, span
from antiphon.host.review.texts import Texts
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin, OriginTask

__all__ = ["Who", "headline_of", "round_text", "task_text", "who_of"]

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
    def without_call(self) -> str:
        """The key of the words that stand in the place of the call, if there is none."""
        return "who.unclear" if self.unclear else "who.background"


def who_of(origin: Origin) -> Who:
    """Collect who asks, and for what."""
    kind, _, digits = origin.identity.partition(":")
    call = origin.call
    return Who(
        target=(target := mask(origin.target)),
        name=server_name(target, kind),
        kind=kind,
        short=digits[:_DIGITS],
        identity=origin.identity,
        claims=f"{origin.server.name} {origin.server.version}" if origin.server else "",
        call=f"{call.method} {call.name or ''}".rstrip() if call else "",
        arguments=_arguments(call.arguments) if call and call.arguments is not None else "",
        round=(origin.round.n, origin.round.max) if origin.round else None,
        task=None if (task := origin.task) is None else msgspec.structs.replace(task, says=mask(task.says)),
        door=origin.door or "",
        unclear=origin.unclear,
    )


def _arguments(arguments: object) -> str:
    line = encode(arguments).decode("utf-8", "replace")
    return line if len(line) <= _LINE else pretty(arguments)


def task_text(task: OriginTask, words: Texts, now: float) -> str:
    """Say in one line how old a task is, how often it has asked, and what that has cost; all of it is known here.

    ``now``: seconds since the epoch.
    """
    since = task.started if task.started is not None else task.first
    age = "who.task_started" if task.started is not None else "who.task_seen"
    parts = [words("who.task") if since is None else words(age, age=span(now - since, words))]
    if not task.asks:
        parts.append(words("who.task_first"))
    else:
        parts.append(words("who.task_ask" if task.asks == 1 else "who.task_asks", n=task.asks))
        tokens = words("who.task_tokens", n=task.tokens) if task.tokens else words("who.task_free")
        parts.append(words("who.task_cost", cost=rounded_dollars(task.money)) if task.money else tokens)
    return " · ".join(parts)


def round_text(number: int, words: Texts) -> str:
    """Say which question of its call this is."""
    key = f"who.round.{number}"
    return words(key) if words.has(key) else words("who.round", n=number)


def headline_of(who: Who, costs: Costs | None, words: Texts) -> str:
    """Return one line: who asks, for what, at which cost. Not inert: the names come from the server."""
    parts = [who.name, who.subject or words(who.without_call)]
    if who.task:
        parts.append(words("who.task"))
    if who.round:
        parts.append(round_text(who.round[0], words))
    if costs is not None:
        worst, left = rounded_dollars(costs.worst.money), costs.left
        parts.append(
            words("cost.at_most", worst=worst)
            if left is None
            else words("cost.at_most_of", worst=worst, left=rounded_dollars(left, up=False))
        )
    return " · ".join(parts)
