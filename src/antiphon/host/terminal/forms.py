"""Forms at the terminal: one filled in field by field, and a request as TOML for editing in the person's editor.

Owns the questions, the form in which nothing is invisible, and what may be changed in it: system prompt, messages, and
a lower ``max_tokens``; the temporary file (0600, in a folder of its own, deleted afterwards), and the child process in
the foreground of a terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import tempfile
import tomllib
import webbrowser
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from antiphon.host.checks.form_fields import Field, fields_of, parse_value
from antiphon.host.checks.message_parts import AnyBlock
from antiphon.host.checks.visible import inert_line, replace_hidden
from antiphon.host.review.decisions import argument_fields, describe_rule, edit_call, read_fields
from antiphon.host.review.diff import format_json
from antiphon.host.review.review import EditCall, ToolItem
from antiphon.host.review.summary import Texts
from antiphon.host.terminal.console import Console, Layout
from antiphon.host.terminal.request_text import ENGLISH, show_address
from antiphon.wire.content import SamplingContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult, ElicitValue
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

_INTRODUCTION = """\
# This is what will be sent. Change it, save it and close the editor; you will see the difference and be asked again.
# Characters that cannot be seen are written as escapes (\\u202E). A block with "keep" stays as it is or is removed.
"""
_FALLBACKS = ("nano", "vi")


def to_form(params: CreateMessageRequestParams) -> str:
    """Convert a request to a form."""
    parts = [_INTRODUCTION, f"max_tokens = {params.max_tokens}  # may only be lowered\n"]
    if params.system_prompt is not None:
        parts.append(f"system_prompt = {_quote_text(params.system_prompt)}\n")
    kept = 0
    for message in params.messages:
        parts.append(f'\n[[messages]]\nrole = "{message.role}"\n')
        if len(message.blocks) == 1 and isinstance(message.blocks[0], TextContent):
            parts.append(f"text = {_quote_text(message.blocks[0].text)}\n")
            continue
        for block in message.blocks:
            kept += not isinstance(block, TextContent)
            parts.append(f"\n[[messages.content]]\n{_write_entry(block, kept)}\n")
    return "".join(parts)


def from_form(form: str, params: CreateMessageRequestParams) -> CreateMessageRequestParams:
    """Convert an edited form back; raise ``ValueError``, with the place, for a change that is not allowed."""
    try:
        data = tomllib.loads(form)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not a valid form: {error}") from None
    _refuse_unknown("the form", data, ("max_tokens", "system_prompt", "messages"))
    most = data.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= params.max_tokens:
        raise ValueError(f"max_tokens: must be from 1 to {params.max_tokens}")
    system_prompt = data.get("system_prompt")
    if not isinstance(system_prompt, str | None):
        raise ValueError("system_prompt: must be a text")
    return msgspec.structs.replace(
        params, max_tokens=most, system_prompt=system_prompt, messages=_read_messages(data.get("messages"), params)
    )


def _quote_text(text: str) -> str:
    """Format a TOML multi-line basic string (TOML 1.0, "String"), whose first line end does not count."""
    text = re.sub(r'"{3,}|"+\Z', lambda quotes: '\\"' * len(quotes[0]), text.replace("\\", "\\\\"))
    return f'"""\n{replace_hidden(text, _escape_character)}"""'


def _escape_character(char: str) -> str:
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"


def _write_entry(block: AnyBlock, number: int) -> str:
    if isinstance(block, TextContent):
        return f"text = {_quote_text(block.text)}"
    about = type(block).__name__.removesuffix("Content")
    if isinstance(block, ToolUseContent):
        about = f"use of the tool {_write_comment(block.name)}"
    elif isinstance(block, ToolResultContent):
        about = f"result of the tool use {_write_comment(block.tool_use_id)}"
    return f"keep = {number}  # {about}"


def _write_comment(text: str) -> str:
    return replace_hidden(text.replace("\n", " ").replace("\t", " "), _escape_character)


def _read_messages(entries: object, params: CreateMessageRequestParams) -> Sequence[SamplingMessage]:
    if not isinstance(entries, list) or not entries:
        raise ValueError("messages: at least one is needed")
    blocks = [block for message in params.messages for block in message.blocks]
    kept: list[SamplingContent] = [block for block in blocks if not isinstance(block, TextContent)]
    read = [_read_message(entry, f"messages[{at}]", kept) for at, entry in enumerate(cast("list[object]", entries))]
    # An unchanged message may have annotations that the form does not show, so the original is taken.
    for at, (message, original) in enumerate(zip(read, params.messages, strict=False)):
        if _make_plain(original) == _make_plain(message):
            read[at] = original
    return read


def _make_plain(message: SamplingMessage) -> tuple[str, list[object]]:
    return message.role, [block.text if isinstance(block, TextContent) else id(block) for block in message.blocks]


def _read_message(entry: object, place: str, kept: list[SamplingContent]) -> SamplingMessage:
    data = _read_table(place, entry, ("role", "text", "content"))
    role = data.get("role")
    if role not in ("user", "assistant"):
        raise ValueError(f'{place}.role: must be "user" or "assistant"')
    if ("text" in data) == ("content" in data):
        raise ValueError(f"{place}: needs either a text or content")
    if "text" in data:
        return SamplingMessage(role=role, content=_read_text(place, data["text"]))
    content = data["content"]
    if not isinstance(content, list):
        raise ValueError(f"{place}.content: must be [[messages.content]] tables")
    entries = enumerate(cast("list[object]", content))
    return SamplingMessage(
        role=role, content=[_read_block(each, f"{place}.content[{at}]", kept) for at, each in entries]
    )


def _read_block(entry: object, place: str, kept: list[SamplingContent]) -> SamplingContent:
    data = _read_table(place, entry, ("text", "keep"))
    if "text" in data:
        return _read_text(place, data["text"])
    number = data.get("keep")
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(kept):
        raise ValueError(f"{place}.keep: must be the number of a block that was there")
    return kept[number - 1]


def _read_text(place: str, text: object) -> TextContent:
    if not isinstance(text, str):
        raise ValueError(f"{place}.text: must be a text")
    return TextContent(text=text)


def _read_table(place: str, entry: object, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise ValueError(f"{place}: must be a table")
    data = cast("dict[str, Any]", entry)
    _refuse_unknown(place, data, names)
    return data


def _refuse_unknown(place: str, data: dict[str, Any], names: tuple[str, ...]) -> None:
    unknown = next((name for name in data if name not in names), None)
    if unknown is not None:
        raise ValueError(f"{place}: {unknown} cannot be changed here")


def find_editor() -> str | None:
    """Return the command of the person's editor: ``$VISUAL``, ``$EDITOR``, or one that is installed."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    return chosen or next((name for name in _FALLBACKS if shutil.which(name)), None)


async def edit_text(text: str, editor: str, terminal: str | None) -> str:
    """Let the person edit a text, and return it.

    ``terminal``: its path; ``None`` for an editor that needs none, such as a script, on our own standard streams.
    Cancelling ends the editor and restores the terminal. Raises ``ValueError`` if the editor cannot be started, failed,
    or left no text.
    """
    with tempfile.TemporaryDirectory(prefix="antiphon-") as folder, _open_terminal(terminal) as fd:
        path = Path(folder) / "request.toml"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        try:
            command = [*shlex.split(editor), str(path)]
            process = await asyncio.create_subprocess_exec(*command, stdin=fd, stdout=fd, stderr=fd)
        except (OSError, ValueError) as error:
            raise ValueError(f"the editor cannot be started: {error}") from None
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if code != 0:
            raise ValueError(f"the editor ended with exit code {code}")
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"what the editor left cannot be read: {error}") from None


@contextlib.contextmanager
def _open_terminal(path: str | None) -> Generator[int | None, None, None]:
    """Open the terminal for a child, and restore its modes afterwards."""
    if path is None or path == "CON":
        yield None
        return
    import termios

    fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
    try:
        modes = termios.tcgetattr(fd)
        try:
            yield fd
        finally:
            termios.tcsetattr(fd, termios.TCSADRAIN, modes)
    finally:
        os.close(fd)


Opener = Callable[[str], Awaitable[bool]]
"""Opens an address in the person's browser, and tells whether that worked."""


async def open_in_browser(url: str) -> bool:
    """Open an address in the person's browser; return whether that worked."""
    return await asyncio.to_thread(webbrowser.open, url)


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
            given = (f"{name} = {_format_value(value, words)}" for name, value in content.items())
            rows = (row for line in given for row in console.layout.quoted(line, 2))
            await console.show(["", *console.layout.remark(words("inline.will_send")), *rows])
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
        await console.show(_describe_field(field, number, len(fields), console.layout, words))
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
        await console.say(words("inline.refused", why=inert_line(str(error))))
        return None
    await console.show(
        [*console.layout.remark(words("inline.will_send")), *console.layout.quoted(format_json(made.params))]
    )
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
    """Return whether an address may be opened; other schemes start programs, which only the person may do."""
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
        await console.show(_describe_field(field, number, len(fields), console.layout, words))
        while True:
            typed = await console.line(words("inline.value"))
            if typed is None:
                return None
            takes_all = takes_all or (typed == _TAKE_ALL and field.default is not None)
            try:
                value = _take_value(field, typed)
            except ValueError:
                await console.say(words("inline.not_taken", why=_describe_expected(field, words)))
                continue
            break
        if value is not None:
            content[field.name] = value
    return content


def _take_value(field: Field, typed: str) -> ElicitValue | None:
    if typed in (_TAKE, _TAKE_ALL) and field.default is not None:
        return field.default
    return None if typed == _LEAVE_OUT and not field.required else parse_value(field, typed)


def _describe_field(field: Field, number: int, count: int, layout: Layout, words: Texts) -> Iterator[str]:
    need = words("inline.needed") if field.required else words("inline.left_out", press=_LEAVE_OUT)
    rules = f"{_describe_expected(field, words)}, {need}"
    yield ""
    yield from layout.remark(words("inline.field", n=number, total=count, rule=rules, title=field.title))
    if field.description:
        yield from layout.quoted(field.description, 2)
    if field.pattern:
        yield from layout.labelled("", f"{words('form.pattern')} {field.pattern}")
    for at, option in enumerate(field.options, 1):
        same = option.title == option.value
        yield from layout.labelled(f"  {at}", option.title if same else f"{option.title} ({option.value})")
    if field.default is not None:
        suggested = words("inline.suggested", value=_format_value(field.default, words), press=_TAKE)
        yield from layout.labelled(f"  {_TAKE}", suggested)


def _describe_expected(field: Field, words: Texts) -> str:
    """Say which values fit a field."""
    said = describe_rule(field, words)
    if field.kind in ("integer", "number"):
        return said
    return ", ".join(filter(None, (words(f"inline.kind.{field.kind}"), said)))


def _format_value(value: ElicitValue, words: Texts) -> str:
    if isinstance(value, bool):
        return words("form.yes" if value else "form.no")
    return ", ".join(value) if isinstance(value, list) else str(value)
