"""Filling in a form at the terminal, field by field, and agreeing to visit an address.

Owns the questions; ``host.checks.forms`` decides which values fit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from antiphon.host.checks.forms import Field, fields_of, parse_value
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.decisions import rule
from antiphon.host.review.diff import pretty
from antiphon.host.review.edit_call import argument_fields, edit_call, read_fields
from antiphon.host.review.review import EditCall, ToolItem
from antiphon.host.review.texts import Texts
from antiphon.host.terminal.console import Console
from antiphon.host.terminal.layout import Layout
from antiphon.host.terminal.request_text import ENGLISH, show_address
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult, ElicitValue

__all__ = ["Opener", "edit_arguments", "fill_in", "may_open", "open_address", "read_address"]

Opener = Callable[[str], Awaitable[bool]]
"""Opens an address in the person's browser, and tells whether that worked."""

_LEAVE_OUT = "-"
_TAKE, _TAKE_ALL = "=", "=="
"""Take what the server suggests: for one field, and for all that follow. Nothing is taken by an empty line."""


async def fill_in(console: Console, params: ElicitRequestParams, words: Texts = ENGLISH) -> ElicitResult | None:
    """Ask for each field, then whether to send it; ``None`` if the person breaks off without a decision."""
    fields = fields_of(params)
    while True:
        content = await _ask_all(console, fields, words)
        if content is None:
            return None
        if fields:
            await console.show(_summary(content, console.layout, words))
        key = await console.choose({"a": words("key.send"), "e": words("key.edit"), "c": words("edit.back")})
        if key == "a":
            return ElicitResult(action="accept", content=content)
        if key != "e":
            return None


async def edit_arguments(console: Console, item: ToolItem, words: Texts = ENGLISH) -> EditCall | None:
    """Ask for each argument of a call, then whether to run it so; ``None`` if the person breaks off."""
    fields = argument_fields(item)
    typed: list[list[str]] = []
    for number, (field, present) in enumerate(fields, 1):
        await console.show(_about(field, number, len(fields), console.layout, words))
        if present:
            await console.say(words("inline.present", value=inert_line(", ".join(present))))
        line = await console.line(words("inline.value"))
        if line is None:
            return None
        typed.append(present if not line else [] if line == _LEAVE_OUT else [line])
    try:
        arguments = read_fields(item, lambda field, at: _read_value(field, typed[at]), lambda at: typed[at])
        made = await edit_call(item, arguments)
    except ValueError as error:
        await console.say(words("inline.not_taken", why=inert_line(str(error))))
        return None
    await console.show([*console.layout.remark(words("inline.will_send")), *console.layout.quoted(pretty(made.params))])
    await console.arm()
    return made if await console.choose({"a": words("preview.send"), "c": words("edit.back")}) == "a" else None


def _read_value(field: Field, typed: list[str]) -> ElicitValue | None:
    try:
        return parse_value(field, ", ".join(typed)) if typed else None
    except ValueError as error:
        raise ValueError(f"{field.title}: {error}") from None


async def read_address(console: Console, url: str, words: Texts = ENGLISH) -> bool:
    """Show a complete address, one screen at a time; ``False`` if the person stopped before its end."""
    return await console.show_to_the_end(show_address(url, console.layout, words), words("form.more"))


async def open_address(console: Console, url: str, opener: Opener, words: Texts = ENGLISH) -> None:
    """Open an address in the browser. Before the person agrees, nothing is opened, fetched or resolved."""
    if not may_open(url) or not await opener(url):
        await console.say(words("form.not_opened"))


def may_open(url: str) -> bool:
    """Tell whether an address may be opened; other schemes start programs, which only the person may do."""
    return url.lower().startswith(("https://", "http://"))


async def _ask_all(console: Console, fields: list[Field], words: Texts) -> dict[str, ElicitValue] | None:
    """Ask field by field; ``None`` if the person broke off with Ctrl-D."""
    content: dict[str, ElicitValue] = {}
    suggesting = sum(field.default is not None for field in fields)
    if suggesting:
        await console.say(words("inline.suggestions", n=suggesting, press=_TAKE, all=_TAKE_ALL))
    takes_all = False
    for number, field in enumerate(fields, 1):
        if takes_all and field.default is not None:
            content[field.name] = field.default
            continue
        await console.show(_about(field, number, len(fields), console.layout, words))
        while True:
            typed = await console.line(words("inline.value"))
            if typed is None:
                return None
            takes_all = takes_all or (typed == _TAKE_ALL and field.default is not None)
            try:
                value = _taken(field, typed)
            except ValueError as error:
                # The error text exists in English only; in other languages the person is told what would fit.
                why = str(error) if words.language == "en" else _expected(field, words)
                await console.say(words("inline.not_taken", why=why))
                continue
            break
        if value is not None:
            content[field.name] = value
    return content


def _taken(field: Field, typed: str) -> ElicitValue | None:
    if typed in (_TAKE, _TAKE_ALL) and field.default is not None:
        return field.default
    return None if typed == _LEAVE_OUT and not field.required else parse_value(field, typed)


def _about(field: Field, number: int, count: int, layout: Layout, words: Texts) -> Iterator[str]:
    need = words("inline.needed") if field.required else words("inline.left_out", press=_LEAVE_OUT)
    rules = f"{_expected(field, words)}, {need}"
    yield ""
    yield from layout.remark(words("inline.field", n=number, total=count, rule=rules, title=field.title))
    if field.description:
        yield from layout.quoted(field.description, 2)
    for at, option in enumerate(field.options, 1):
        same = option.title == option.value
        yield from layout.labelled(f"  {at}", option.title if same else f"{option.title} ({option.value})")
    if field.default is not None:
        suggested = words("inline.suggested", value=_readable(field.default, words), press=_TAKE)
        yield from layout.labelled(f"  {_TAKE}", suggested)


def _expected(field: Field, words: Texts) -> str:
    """Say which values fit a field."""
    said = rule(field, words)
    if field.kind in ("integer", "number"):
        return said
    return ", ".join(filter(None, (words(f"inline.kind.{field.kind}"), said)))


def _summary(content: dict[str, ElicitValue], layout: Layout, words: Texts) -> Iterator[str]:
    yield ""
    yield from layout.remark(words("inline.will_send"))
    for name, value in content.items():
        yield from layout.quoted(f"{name} = {_readable(value, words)}", 2)


def _readable(value: ElicitValue, words: Texts) -> str:
    if isinstance(value, bool):
        return words("form.yes" if value else "form.no")
    return ", ".join(value) if isinstance(value, list) else str(value)
