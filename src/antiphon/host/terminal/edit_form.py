"""A request as a text form for editing, TOML in which nothing is invisible, and the person's editor that runs on it.

Owns the form, and what may be changed in it: system prompt, messages, and a lower ``max_tokens``; the temporary file
(0600, in a folder of its own, deleted afterwards), and the child process in the foreground of a terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import tempfile
import tomllib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from antiphon.host.checks.contents import AnyBlock
from antiphon.host.checks.visible import replace_hidden
from antiphon.host.review.diff import compared
from antiphon.wire.content import SamplingContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

__all__ = ["difference", "edit", "find_editor", "from_form", "to_form"]

_INTRODUCTION = """\
# This is what will be sent. Change it, save it and close the editor; you will see the difference and be asked again.
# Characters that cannot be seen are written as escapes (\\u202E). A block with "keep" stays as it is or is removed.
"""
_MOST_LINES = 20_000
"""Most lines of a form that is compared line by line; comparing more would take too long."""

_FALLBACKS = ("nano", "vi")


def to_form(params: CreateMessageRequestParams) -> str:
    """Convert a request to a form."""
    parts = [_INTRODUCTION, f"max_tokens = {params.max_tokens}  # may only be lowered\n"]
    if params.system_prompt is not None:
        parts.append(f"system_prompt = {_quoted(params.system_prompt)}\n")
    kept = 0
    for message in params.messages:
        parts.append(f'\n[[messages]]\nrole = "{message.role}"\n')
        if len(message.blocks) == 1 and isinstance(message.blocks[0], TextContent):
            parts.append(f"text = {_quoted(message.blocks[0].text)}\n")
            continue
        for block in message.blocks:
            kept += not isinstance(block, TextContent)
            parts.append(f"\n[[messages.content]]\n{_entry(block, kept)}\n")
    return "".join(parts)


def from_form(form: str, params: CreateMessageRequestParams) -> CreateMessageRequestParams:
    """Convert an edited form of this request back.

    Raises:
        ValueError: it cannot be read, or changes what may not be changed; the text names the place.
    """
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
        params, max_tokens=most, system_prompt=system_prompt, messages=_messages(data.get("messages"), params)
    )


def difference(before: CreateMessageRequestParams, after: CreateMessageRequestParams) -> list[str]:
    """List the lines of the form that differ, with ``+``, ``-`` and some context; inert, as forms are."""
    old, new = to_form(before).splitlines(), to_form(after).splitlines()
    if len(old) + len(new) > _MOST_LINES:
        return ["(too long to be compared; the whole request is shown again)"]
    return [f"{line.sign}{line.text}" for line in compared(old, new)]


def _quoted(text: str) -> str:
    """Format a TOML multi-line basic string (TOML 1.0, "String"), whose first line end does not count."""
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if text.endswith('"'):
        text = text[:-1] + '\\"'
    return f'"""\n{replace_hidden(text, _escape)}"""'


def _escape(char: str) -> str:
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"


def _entry(block: AnyBlock, number: int) -> str:
    if isinstance(block, TextContent):
        return f"text = {_quoted(block.text)}"
    about = type(block).__name__.removesuffix("Content")
    if isinstance(block, ToolUseContent):
        about = f"use of the tool {_comment(block.name)}"
    elif isinstance(block, ToolResultContent):
        about = f"result of the tool use {_comment(block.tool_use_id)}"
    return f"keep = {number}  # {about}"


def _comment(text: str) -> str:
    return replace_hidden(text.replace("\n", " ").replace("\t", " "), _escape)


def _messages(entries: object, params: CreateMessageRequestParams) -> Sequence[SamplingMessage]:
    if not isinstance(entries, list) or not entries:
        raise ValueError("messages: at least one is needed")
    blocks = [block for message in params.messages for block in message.blocks]
    kept: list[SamplingContent] = [block for block in blocks if not isinstance(block, TextContent)]
    read = [_message(entry, f"messages[{at}]", kept) for at, entry in enumerate(cast("list[object]", entries))]
    return list(_reused(read, params.messages))


def _reused(read: list[SamplingMessage], originals: Sequence[SamplingMessage]) -> Iterator[SamplingMessage]:
    """Yield the original of every unchanged message, since it may have annotations that the form does not show."""
    for at, message in enumerate(read):
        original = originals[at] if at < len(originals) else None
        yield original if original is not None and _plain(original) == _plain(message) else message


def _plain(message: SamplingMessage) -> tuple[str, list[object]]:
    return message.role, [block.text if isinstance(block, TextContent) else id(block) for block in message.blocks]


def _message(entry: object, place: str, kept: list[SamplingContent]) -> SamplingMessage:
    data = _table(place, entry, ("role", "text", "content"))
    role = data.get("role")
    if role not in ("user", "assistant"):
        raise ValueError(f'{place}.role: must be "user" or "assistant"')
    if ("text" in data) == ("content" in data):
        raise ValueError(f"{place}: needs either a text or content")
    if "text" in data:
        return SamplingMessage(role=_role(role), content=_text(place, data["text"]))
    content = data["content"]
    if not isinstance(content, list):
        raise ValueError(f"{place}.content: must be [[messages.content]] tables")
    entries = enumerate(cast("list[object]", content))
    return SamplingMessage(
        role=_role(role), content=[_block(each, f"{place}.content[{at}]", kept) for at, each in entries]
    )


def _role(role: str) -> Literal["user", "assistant"]:
    return "user" if role == "user" else "assistant"


def _block(entry: object, place: str, kept: list[SamplingContent]) -> SamplingContent:
    data = _table(place, entry, ("text", "keep"))
    if "text" in data:
        return _text(place, data["text"])
    number = data.get("keep")
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(kept):
        raise ValueError(f"{place}.keep: must be the number of a block that was there")
    return kept[number - 1]


def _text(place: str, text: object) -> TextContent:
    if not isinstance(text, str):
        raise ValueError(f"{place}.text: must be a text")
    return TextContent(text=text)


def _table(place: str, entry: object, names: tuple[str, ...]) -> dict[str, Any]:
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


async def edit(text: str, editor: str, terminal: str | None) -> str:
    """Let the person edit a text, and return it.

    ``terminal``: its path; ``None`` for an editor that needs none, such as a script, on our own standard streams.
    Cancelling ends the editor and restores the terminal.

    Raises:
        ValueError: the editor cannot be started, failed, or left no text; the message says so.
    """
    with _text_file(text) as path, _terminal(terminal) as fd:
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
        return _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"what the editor left cannot be read: {error}") from None


@contextlib.contextmanager
def _text_file(text: str) -> Generator[Path, None, None]:
    with tempfile.TemporaryDirectory(prefix="antiphon-") as folder:
        path = Path(folder) / "request.toml"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        yield path


@contextlib.contextmanager
def _terminal(path: str | None) -> Generator[int | None, None, None]:
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
