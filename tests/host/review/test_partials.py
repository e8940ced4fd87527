"""What has come of an answer, as it crosses the store."""

from __future__ import annotations

from antiphon.host import MemoryStore
from antiphon.host.review.partials import Partial, partials_in
from antiphon.host.store.base import PartialRow
from antiphon.wire.envelope import encode


async def test_what_is_kept_is_read_again():
    """With the review and the moment, in the order in which they began."""
    store = MemoryStore()
    partial = Partial(target="python a.py", name="a.py", model="m", text="A warm ", omitted=3)
    for id, began in (("1", 1.0), ("2", 2.0)):
        body = encode(partial).decode()
        await store.keep_partial(PartialRow(id=id, host=store.host, began=began, body=body))
    first, second = await partials_in(store)
    assert (first.review, second.review, second.began) == ("1", "2", 2.0)
    assert (first.text, first.omitted) == ("A warm ", 3)
