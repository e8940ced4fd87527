"""What a host remembers: in memory, in a file, or in a database.

Owns the names, the rows that cross the seam among them. What a store promises is ``base``; nothing of a database is
imported before one is opened.
"""

from __future__ import annotations

from antiphon.host.store.asks import Arrival, AskRow, Found, Sought, SpentRow
from antiphon.host.store.base import (
    Balance,
    BlockRow,
    BrowserRow,
    Change,
    Decided,
    Ended,
    GrantRow,
    Hold,
    HoldRow,
    PageRow,
    ReviewRow,
    Settlement,
    Store,
)
from antiphon.host.store.chain import Entry, Fault, Head, Record
from antiphon.host.store.location import open_store, usual_store
from antiphon.host.store.memory import MemoryStore

__all__ = [
    "Arrival",
    "AskRow",
    "Balance",
    "BlockRow",
    "BrowserRow",
    "Change",
    "Decided",
    "Ended",
    "Entry",
    "Fault",
    "Found",
    "GrantRow",
    "Head",
    "Hold",
    "HoldRow",
    "MemoryStore",
    "PageRow",
    "Record",
    "ReviewRow",
    "Settlement",
    "Sought",
    "SpentRow",
    "Store",
    "open_store",
    "usual_store",
]
