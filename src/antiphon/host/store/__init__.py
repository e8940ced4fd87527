"""What a host stores: in memory, in a file, or in a database.

Re-exports the names, including the rows. ``base`` has the interface. No database library is imported before a database
is opened.
"""

from __future__ import annotations

from antiphon.host.store.asks import Arrival, AskRow, Found, Sought, SpentRow
from antiphon.host.store.base import (
    Balance,
    BlockRow,
    BrowserRow,
    Change,
    Decided,
    DefinitionRow,
    Ended,
    GrantRow,
    Hold,
    HoldRow,
    PageRow,
    PartialRow,
    ReviewRow,
    Settlement,
    Standing,
    Store,
    Supposed,
    TaskSoFar,
)
from antiphon.host.store.chain import Entry, Fault, Head, Record
from antiphon.host.store.location import open_store, usual_store
from antiphon.host.store.memory import MemoryStore
from antiphon.host.store.news import Listening, News, NewsSource

__all__ = [
    "Arrival",
    "AskRow",
    "Balance",
    "BlockRow",
    "BrowserRow",
    "Change",
    "Decided",
    "DefinitionRow",
    "Ended",
    "Entry",
    "Fault",
    "Found",
    "GrantRow",
    "Head",
    "Hold",
    "HoldRow",
    "Listening",
    "MemoryStore",
    "News",
    "NewsSource",
    "PageRow",
    "PartialRow",
    "Record",
    "ReviewRow",
    "Settlement",
    "Sought",
    "SpentRow",
    "Standing",
    "Store",
    "Supposed",
    "TaskSoFar",
    "open_store",
    "usual_store",
]
