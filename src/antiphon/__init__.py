"""Antiphon: the Model Context Protocol, in which a server may call back.

Owns the list of public names and nothing else. A name is loaded when it is first used, so that
``import antiphon`` costs next to nothing and a client never pays for the server.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__: list[str]


def __getattr__(name: str) -> object:
    from antiphon.machine.public_names import load_public_name

    return load_public_name(__name__, name)


def __dir__() -> list[str]:
    import sys

    return [*sys.modules[__name__].__all__, "__version__"]
