"""Under which names ``antiphon audit`` shows records, where processes share a store."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.host.store.chain import Record
from tests.cli.program import Done


async def test_each_process_counts_its_asks_from_one(kept, audit: Callable[..., Done]):
    """A record is shown with the server and tool of its own ask, not with those of another process's."""
    asked = {"method": "tools/call", "ask": "1", "identity": "command:shop"}
    for host, tool in (("first", "read_notes"), ("second", "delete_account")):
        await kept(Record(at=1.0, step="received", host=host, server=f"{host}.py", tool=tool, **asked))
        await kept(*[Record(at=2.0, step="policy", outcome="deny", host=host, **asked)] * 2)
    for words in (("list",), ("list", "-n", "0")):
        shown = audit(*words).out
        assert (shown.count("read_notes"), shown.count("delete_account")) == (3, 3), words
    for words in (("list", "-n", "1"), ("list", "--outcome", "deny", "-n", "2"), ("show", "6")):
        shown = audit(*words).out
        assert "delete_account" in shown, words
        assert "read_notes" not in shown, words
