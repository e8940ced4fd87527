"""What a host stores: in memory, in a file, or in a database.

Re-exports the names, including the rows. ``base`` has the interface. No database library is imported before a database
is opened.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it: type checkers take this name as true
if TYPE_CHECKING:
    from antiphon.host.store.ask_rows import (
        Arrival as Arrival,
        AskRow as AskRow,
        Found as Found,
        Sought as Sought,
        SpentRow as SpentRow,
    )
    from antiphon.host.store.base import (
        Balance as Balance,
        BlockRow as BlockRow,
        BrowserRow as BrowserRow,
        Change as Change,
        Decided as Decided,
        DefinitionRow as DefinitionRow,
        Ended as Ended,
        GrantRow as GrantRow,
        Hold as Hold,
        HoldRow as HoldRow,
        PageRow as PageRow,
        PartialRow as PartialRow,
        ReviewRow as ReviewRow,
        Settlement as Settlement,
        Standing as Standing,
        Store as Store,
        Supposed as Supposed,
        TaskSoFar as TaskSoFar,
    )
    from antiphon.host.store.chain import (
        Entry as Entry,
        Fault as Fault,
        Head as Head,
        Record as Record,
        RecordKey as RecordKey,
        RecordSearch as RecordSearch,
    )
    from antiphon.host.store.store_location import open_store as open_store, usual_store as usual_store
    from antiphon.host.store.memory_store import MemoryStore as MemoryStore
    from antiphon.host.store.news import Listening as Listening, News as News, NewsSource as NewsSource
else:
    _HOMES = {
        "antiphon.host.store.ask_rows": "Arrival AskRow Found Sought SpentRow",
        "antiphon.host.store.base": (
            "Balance BlockRow BrowserRow Change Decided DefinitionRow Ended GrantRow Hold HoldRow PageRow "
            "PartialRow ReviewRow Settlement Standing Store Supposed TaskSoFar"
        ),
        "antiphon.host.store.chain": "Entry Fault Head Record RecordKey RecordSearch",
        "antiphon.host.store.store_location": "open_store usual_store",
        "antiphon.host.store.memory_store": "MemoryStore",
        "antiphon.host.store.news": "Listening News NewsSource",
    }
    __all__ = [name for names in _HOMES.values() for name in names.split()]

    def __getattr__(name: str) -> object:
        from antiphon.machine.public_names import load_public_name

        return load_public_name(__name__, _HOMES, name)
