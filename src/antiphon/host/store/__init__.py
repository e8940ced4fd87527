"""What a host stores: in memory, in a file, or in a database.

Re-exports the names, including the rows. ``base`` has the interface. No database library is imported before a database
is opened.
"""

from __future__ import annotations

__all__: list[str]


def __getattr__(name: str) -> object:
    from antiphon.machine.public_names import load_public_name

    return load_public_name(__name__, name)
