"""What a store is told later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from antiphon.host.store.owed import MAX_OWED, Owed


class Shaky:
    """Runs work, but for a while cannot."""

    def __init__(self) -> None:
        self.down = False
        self.done: list[str] = []

    async def run(self, work: Callable[[object], None]) -> None:
        if self.down:
            raise ConnectionResetError
        work(None)

    def work(self, name: str) -> Callable[[object], None]:
        """Make work that notes that it was done."""
        return partial(self._note, name)

    def _note(self, name: str, connection: object) -> None:
        self.done.append(name)


async def test_what_is_owed_is_done_once_in_its_order():
    """And then forgotten."""
    shaky = Shaky()
    owed = Owed(shaky.run)
    for name in ("a", "b", "a"):
        owed.add(name, shaky.work(name))
    await owed.pay()
    await owed.pay()
    assert (shaky.done, len(owed)) == (["a", "b"], 0)


async def test_what_fails_again_is_kept():
    """Whoever tries is told."""
    shaky = Shaky()
    owed = Owed(shaky.run)
    owed.add("a", shaky.work("a"))
    shaky.down = True
    with pytest.raises(ConnectionResetError):
        await owed.pay()
    shaky.down = False
    await owed.pay()
    assert shaky.done == ["a"]


async def test_more_than_is_remembered_is_given_up_and_said(caplog: pytest.LogCaptureFixture):
    """What came first goes first."""
    shaky = Shaky()
    owed = Owed(shaky.run)
    for number in range(MAX_OWED + 1):
        owed.add(str(number), shaky.work(str(number)))
    await owed.pay()
    assert (shaky.done[0], len(shaky.done)) == ("1", MAX_OWED)
    assert "could not be saved" in caplog.text
