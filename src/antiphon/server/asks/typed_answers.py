"""Answers as values of a type: the instruction for the model, reading its answer, and the message about an error.

Pure; ``tool_loop`` has the turns. docs/design/typed-answers.md says why this uses instructions and not a forced tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from antiphon.json_schema.mismatch import Mismatch, MismatchError
from antiphon.server.functions.shape import Shape
from antiphon.wire.envelope import encode, too_deep

__all__ = ["TypedAnswer"]

_FENCE = "```"
_OPENING = re.compile(r"```[a-zA-Z]*+[ \t]*+\n")
_MOST_FENCES = 8
"""Most code fences of an answer that are examined."""

_ASK = "Answer with one JSON value and nothing else: no words around it, no code fence. It must fit this JSON Schema:\n"


class TypedAnswer:
    """A type that answers must have. Raises ``ConfigError`` for a type without a JSON form."""

    __slots__ = ("_is_text", "_shape")

    def __init__(self, kind: Any) -> None:
        self._is_text = kind is str
        """Any answer is text, so no instruction is needed."""
        self._shape = Shape(kind, place="result_type")

    def instructed(self, system_prompt: str | None) -> str | None:
        """Add a description of the required answer to a system prompt."""
        if self._is_text:
            return system_prompt
        instruction = _ASK + self._schema
        return f"{system_prompt}\n\n{instruction}" if system_prompt else instruction

    def read(self, text: str) -> Any:
        """Convert an answer to a value: from JSON that stands alone, in a code fence, or with words around it.

        Raises:
            MismatchError: it does not fit, or contains no JSON.
        """
        if self._is_text:
            return text
        first: MismatchError | None = None
        for candidate in _candidates(text):
            for document in self._readings(candidate):
                try:
                    return self._shape.decode(document)
                except (MismatchError, RecursionError) as error:
                    # The error of the most likely reading is the most useful one.
                    if first is None and isinstance(error, MismatchError):
                        first = error
        raise first or MismatchError(Mismatch("", "no JSON in the answer"))

    def repair(self, error: MismatchError) -> str:
        """Return the message that tells the model what is wrong.

        It repeats the schema: a client may drop the system prompt.
        """
        return f"This does not fit: {error}. {_ASK}{self._schema}"

    @property
    def _schema(self) -> str:
        return encode(self._shape.schema).decode()

    def _readings(self, candidate: str) -> list[bytes]:
        """List the possible JSON of a text: the text and, if the value is wrapped, the bare value or bare words."""
        is_json = _is_json(candidate)
        whole = [candidate.encode()] if is_json else []
        if not self._shape.wrapped:
            return whole
        bare = b'{"result":%b}' % (candidate.encode() if is_json else encode(candidate))
        return [*whole, bare] if candidate.startswith("{") else [bare]


def _candidates(text: str) -> Iterator[str]:
    """Yield the parts of an answer that may be the JSON, the most likely first."""
    stripped = text.strip()
    if _is_json(stripped):
        yield stripped
        return
    yield from (part for part in islice(_fenced(text), _MOST_FENCES) if _is_json(part))
    starts = [at for at in (stripped.find("{"), stripped.find("[")) if at >= 0]
    if starts:
        start = min(starts)
        end = stripped.rfind("}" if stripped[start] == "{" else "]")
        part = stripped[start : end + 1]
        if part and _is_json(part):
            yield part
    # Bare words, such as the name of a choice without quotes.
    yield stripped


def _fenced(text: str) -> Iterator[str]:
    """Yield the contents of code fences. A fence that is not closed ends the search."""
    at = text.find(_FENCE)
    while at >= 0:
        opening = _OPENING.match(text, at)
        end = at if opening is None else text.find(_FENCE, opening.end())
        if end < 0:
            return
        if opening is not None:
            yield text[opening.end() : end].strip()
        at = text.find(_FENCE, end + len(_FENCE))


def _is_json(text: str) -> bool:
    try:
        data = text.encode()
        if too_deep(data):
            return False
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True
