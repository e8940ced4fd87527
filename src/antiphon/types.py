"""What travels: the types of messages, of every revision. Attributes are the names on the wire in snake_case."""

from __future__ import annotations

__all__: list[str]


def __getattr__(name: str) -> object:
    from antiphon.machine.public_names import load_public_name

    return load_public_name(__name__, name)
