"""A gateway: many servers as one, whose asks one host answers."""

from __future__ import annotations

__all__: list[str]


def __getattr__(name: str) -> object:
    from antiphon.machine.public_names import load_public_name

    return load_public_name(__name__, name)
