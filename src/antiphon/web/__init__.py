"""The review page: the questions that wait for a person, in a browser on this machine. Needs ``antiphon[host]``.

Knows a store, and neither servers nor clients: decisions are passed by the ``Queue``, as for the terminal.
"""

from __future__ import annotations

__all__: list[str]


def __getattr__(name: str) -> object:
    from antiphon.machine.public_names import load_public_name

    return load_public_name(__name__, name)
