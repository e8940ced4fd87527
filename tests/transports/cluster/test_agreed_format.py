"""Which format is written, while replicas of two releases come and go."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from antiphon.errors import ConfigError
from antiphon.transports.cluster import agreed_format
from antiphon.transports.cluster.agreed_format import AgreedFormat
from antiphon.transports.cluster.memory import MemoryCluster
from tests.support.network import until

READERS = "format/shop/readers/4"
"""The record that replicas of the release before renew."""


class Part(AgreedFormat):
    """A replica's part, which notes what it may write."""

    def __init__(self, cluster: MemoryCluster, *formats: int, chosen: int | None = None) -> None:
        self.cluster = cluster
        self.written: list[int] = []
        last, present = formats
        super().__init__(cluster, "shop", (last, present), self.written.append, chosen=chosen)


Join = Callable[..., Part]


@pytest.fixture
async def part(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Join]:
    """Make replicas of one cluster, which look every few milliseconds; what they renew counts for a minute."""
    monkeypatch.setattr(agreed_format, "PERIOD", 0.005)
    monkeypatch.setattr(agreed_format, "_LASTING", 12_000)
    first = MemoryCluster()
    async with AsyncExitStack() as stack:

        def make(*formats: int, chosen: int | None = None) -> Part:
            made = Part(MemoryCluster(first), *formats, chosen=chosen)
            stack.push_async_callback(made.leave)
            return made

        yield make


async def looked(part: Part) -> None:
    """Wait until it has looked for others several times from now on."""
    before = len(part.written)
    await until(lambda: len(part.written) > before + 5)


async def test_the_last_format_is_written_while_a_replica_of_the_release_before_is_there(part: Join) -> None:
    """Whoever came first; the present one as soon as that has gone."""
    old, new = part(4, 4), part(4, 5)
    await old.join()
    await new.join()
    await looked(new)
    assert set(new.written) == {4}
    await old.leave()
    await old.cluster.delete(READERS)
    await until(lambda: new.written[-1] == 5)


async def test_a_release_that_is_rolled_out_is_alone_with_its_likes_at_the_end(part: Join) -> None:
    """All of them come to write the present format."""
    parts = [part(4, 5) for _ in range(3)]
    for each in parts:
        await each.join()
    await until(lambda: all(each.written[-1] == 5 for each in parts))


async def test_one_look_is_not_enough(part: Join) -> None:
    """An engine that was started again shows nobody, until those that live have renewed what it lost."""
    new = part(4, 5)
    await new.join()
    assert new.written == [4]


async def test_a_release_that_cannot_read_what_is_written_does_not_start(part: Join) -> None:
    """It says which formats these are, and what to do; and nobody waits for it."""
    new, old = part(4, 5), part(4, 4)
    await new.join()
    await until(lambda: new.written[-1] == 5)
    with pytest.raises(ConfigError, match=r"'shop' write format 5.*reads 4 at most.*update"):
        await old.join()
    assert await new.cluster.get(READERS) is None
    await looked(new)
    assert new.written[-1] == 5


async def test_a_release_is_not_left_out(part: Join) -> None:
    """What the one before the last has written would be lost: it says which release comes first."""
    old, newest = part(4, 4), part(5, 6)
    await old.join()
    with pytest.raises(ConfigError, match=r"write format 4.*reads 5 and 6.*a release that reads 4 and 5"):
        await newest.join()


async def test_a_replica_that_joins_while_the_present_format_is_declared_is_not_overlooked(part: Join) -> None:
    """It had looked before that was declared; the one that declared it looks again, and goes on with the last one."""
    new, old = part(4, 5), part(4, 4)

    class Late(MemoryCluster):
        """Lets the old replica appear just as the new one declares what it will write."""

        async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
            done = await super().replace(key, value, ttl, expected=expected)
            await self.put(READERS, b"", 60)
            return done

    new._cluster = Late(old.cluster)
    await new.join()
    await looked(new)
    assert set(new.written) == {4}


async def test_a_chosen_format_is_declared_at_once_or_never(part: Join) -> None:
    """The present one keeps older replicas away from the start; the last one lets them come back."""
    kept, old = part(4, 5, chosen=4), part(4, 4)
    await kept.join()
    await looked(kept)
    await old.join()
    await kept.leave()
    await old.leave()
    forced = part(4, 5, chosen=5)
    await forced.join()
    with pytest.raises(ConfigError):
        await old.join()


async def test_an_engine_that_is_gone_changes_nothing(part: Join, caplog: pytest.LogCaptureFixture) -> None:
    """What was agreed on holds, and it goes on when the engine is back."""
    caplog.set_level(logging.DEBUG, "antiphon.cluster")
    old, new = part(4, 4), part(4, 5)
    await old.join()
    await new.join()
    await old.leave()
    await old.cluster.delete(READERS)
    new.cluster.reachable(False)
    before = len(new.written)
    await until(lambda: caplog.text.count("not agreed on anew") > 3)
    assert len(new.written) == before
    new.cluster.reachable(True)
    await until(lambda: new.written[-1] == 5)
