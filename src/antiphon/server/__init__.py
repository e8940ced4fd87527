"""Servers: tools, resources, prompts and completion from plain functions, and asks to the client.

Lists what authors of servers may import besides the classes of ``antiphon`` itself; each name is loaded on first use.
"""

from __future__ import annotations

__all__: list[str]


def __getattr__(name: str) -> object:
    from antiphon.machine.public_names import load_public_name

    return load_public_name(__name__, name)
