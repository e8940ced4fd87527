"""What a host remembers: in memory, in a file, or in a database.

Owns the names. What a store promises is ``base``; nothing of a database is imported before one is opened.
"""

from __future__ import annotations

from antiphon.host.store.base import Store
from antiphon.host.store.location import open_store, usual_store
from antiphon.host.store.memory import MemoryStore

__all__ = ["MemoryStore", "Store", "open_store", "usual_store"]
