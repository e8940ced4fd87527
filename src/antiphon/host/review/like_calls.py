"""Permission for calls like one that a person looks at: the rule in CEL, and the same rule in words.

Pure. Owns what may differ from the call that was seen. The rule is kept as a grant, which a person can revoke.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from antiphon.host.checks.visible import inert_line
from antiphon.host.review.decisions import arguments_of
from antiphon.host.review.review import ToolItem
from antiphon.host.review.summary import Texts

Likeness = Literal["same", "most", "any"]
"""What an argument of another call must be: the same, a number that is no larger, or anything."""
LIKENESSES: tuple[Likeness, ...] = get_args(Likeness)


def read_likenesses(item: ToolItem, chosen: Mapping[str, str]) -> dict[str, Likeness]:
    """Return how each argument of a call is to be compared: by default it must be the same."""
    return {
        name: choice if (choice := chosen.get(name, "")) in list_likenesses(value) else "same"
        for name, value in arguments_of(item.params).items()
    }


def list_likenesses(value: object) -> tuple[Likeness, ...]:
    """Return how a value can be compared."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return LIKENESSES if is_number else ("same", "any")


def write_condition(item: ToolItem, likenesses: Mapping[str, Likeness]) -> str:
    """Write the condition that calls like this one meet. Another argument than those of the call meets none."""
    arguments = arguments_of(item.params)
    parts = [f"args.all(name, name in {_write_value(list(arguments))})"]
    for name, value in arguments.items():
        if likenesses[name] != "any":
            sign = "==" if likenesses[name] == "same" else "<="
            parts.append(f"args[{_write_value(name)}] {sign} {_write_value(value)}")
    return " && ".join(parts)


def list_rule_words(item: ToolItem, likenesses: Mapping[str, Likeness], words: Texts) -> Iterator[str]:
    """Yield the rule in words, a line for each argument."""
    for name, value in arguments_of(item.params).items():
        yield words(f"like.{likenesses[name]}", name=inert_line(name), value=inert_line(_write_value(value)))
    yield words("like.others")


def _write_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
