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
    Change as Change,
    Decided as Decided,
    DefinitionRow as DefinitionRow,
    Ended as Ended,
    GrantRow as GrantRow,
    Hold as Hold,
    HoldRow as HoldRow,
    PartialRow as PartialRow,
    PendingCallRow as PendingCallRow,
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
    RecordSearch as RecordSearch,
)
from antiphon.host.store.memory_store import MemoryStore as MemoryStore
from antiphon.host.store.news import Listening as Listening, News as News, NewsSource as NewsSource
from antiphon.host.store.store_location import open_store as open_store, usual_store as usual_store
