from __future__ import annotations

import pytest

from antiphon.host.models.models import RetryPatience, may_stand_in, retry_patiently
from antiphon.host.providers.base import ProviderFailure


class Tries:
    """An attempt that fails in turn as told, then succeeds; and the waits between."""

    def __init__(self, *failures: ProviderFailure) -> None:
        self._failures = list(failures)
        self.made = 0
        self.waits: list[float] = []

    async def __call__(self) -> str:
        self.made += 1
        if self._failures:
            raise self._failures.pop(0)
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def run(self, **patience) -> str:
        return await retry_patiently(self, RetryPatience(**patience), sleep=self.sleep, chance=lambda: 0.0)


def failed(kind="unavailable", after=None, charged=None) -> ProviderFailure:
    """Make a failure."""
    return ProviderFailure(kind, "no", retry_after=after, charged=charged)


async def test_success_needs_one_attempt():
    """And no wait."""
    tries = Tries()
    assert (await tries.run(), tries.made, tries.waits) == ("done", 1, [])


async def test_what_may_pass_is_tried_again():
    """After waits that double."""
    tries = Tries(failed("unavailable"), failed("connection", charged=False), failed("timeout", charged=False))
    assert (await tries.run(attempts=4), tries.waits) == ("done", [0.5, 1.0, 2.0])


async def test_the_service_says_how_long():
    """And is taken at its word."""
    tries = Tries(failed("rate-limit", after=7.5))
    assert (await tries.run(), tries.waits) == ("done", [7.5])


async def test_a_service_that_wants_too_long_has_failed():
    """Nobody waits for an hour."""
    tries = Tries(failed("rate-limit", after=3600))
    with pytest.raises(ProviderFailure):
        await tries.run()
    assert (tries.made, tries.waits) == (1, [])


@pytest.mark.parametrize("kind", ["auth", "quota", "rejected", "refused", "context", "not-found", "invalid"])
async def test_what_will_not_pass_is_not_tried_again(kind):
    """It would only cost."""
    tries = Tries(failed(kind))
    with pytest.raises(ProviderFailure):
        await tries.run()
    assert tries.made == 1


@pytest.mark.parametrize("kind", ["connection", "timeout"])
async def test_what_may_have_been_charged_is_not_tried_again(kind):
    """One attempt is what was reserved; a model may have been at work when the connection was lost."""
    tries = Tries(failed(kind))
    with pytest.raises(ProviderFailure):
        await tries.run()
    assert tries.made == 1
    assert not may_stand_in(failed(kind))
    assert may_stand_in(failed(kind, charged=False))


async def test_attempts_end():
    """With the last failure."""
    tries = Tries(*(failed() for _ in range(9)))
    with pytest.raises(ProviderFailure):
        await tries.run(attempts=3)
    assert (tries.made, len(tries.waits)) == (3, 2)


async def test_waits_differ_by_chance():
    """By a fifth at most."""
    tries = Tries(failed())
    await retry_patiently(tries, RetryPatience(), sleep=tries.sleep, chance=lambda: 1.0)
    assert tries.waits == [0.4]


@pytest.mark.parametrize(("kind", "may"), [("quota", True), ("auth", True), ("refused", False), ("context", False)])
def test_a_stand_in_is_for_failures_of_the_service(kind, may: bool):
    """What one model refuses is not carried to the next."""
    assert may_stand_in(failed(kind)) is may
