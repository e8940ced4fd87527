"""The client: calls to a server, and answers to what it asks, on every revision.

Lists what programs may import besides the classes of ``antiphon`` itself; each name is loaded on first use.
"""

from __future__ import annotations

__all__: list[str]


def __getattr__(name: str) -> object:
    from antiphon.machine.public_names import load_public_name

    return load_public_name(__name__, name)
