"""An answer while it comes: shown to whoever looks, and to nobody else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from antiphon.host import Host, MemoryStore, Queue
from antiphon.host.checks.redact import SecretFinding, find_secrets, mask_text
from antiphon.host.pipeline import growth
from antiphon.host.pipeline.growth import MAX_SHOWN, Flow, Partial, Unfinished, Watching, partials_in
from antiphon.host.providers.base import Completion, Growth, ProviderFailure
from antiphon.host.review.review import Approve, digest
from antiphon.host.store.base import PartialRow
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import text_answer
from tests.host.asks import origin, request
from tests.host.checks.secret_corpus import SECRETS
from tests.host.store.stores import Clock


class Streamed:
    """A provider whose answer comes when the test says so."""

    name = "streamed"
    tools = True
    personal = False

    def __init__(self) -> None:
        self.growth: Growth | None = None
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def complete(self, params, *, model=None):
        self.asked.set()
        return text_answer(await self.answer, "m")

    async def stream(self, params, growth, *, model=None, fallbacks=()):
        self.growth = growth
        growth.begin("m")
        return Completion(result=await self.complete(params), by=None)


class Seen(MemoryStore):
    """A store that says when what is shown has changed."""

    def __init__(self, **more) -> None:
        super().__init__(**more)
        self.changed = asyncio.Event()

    async def keep_partial(self, row: PartialRow) -> None:
        await super().keep_partial(row)
        self.changed.set()

    async def drop_partial(self, id: str) -> None:
        await super().drop_partial(id)
        self.changed.set()

    async def until(self, fits: Callable[[list[Partial]], bool]) -> list[Partial]:
        """Wait until what is shown fits."""
        while not fits(found := await partials_in(self)):
            self.changed.clear()
            await self.changed.wait()
        return found


async def approved(host: Host, store: MemoryStore) -> tuple[str, asyncio.Task]:
    """Let a server ask, and approve it. Returns the review, and what waits for the answer."""
    queue = Queue(store)
    asking = asyncio.create_task(host(request(), origin()))
    async for _ in queue.changes():
        for question in await queue.pending():
            await queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash, by="me")
            return question.id, asking
    raise AssertionError


@pytest.fixture
async def provider() -> Streamed:
    """Make a provider in the loop of the test."""
    return Streamed()


@pytest.fixture
def store() -> Seen:
    """Make a store."""
    return Seen()


@pytest.fixture
def host(provider, store) -> Host:
    """Make a host whose requests are reviewed in its queue."""
    return Host(provider, store=store, reviewer=Queue(store))


async def test_whoever_looks_sees_the_answer_grow(host, provider, store):
    """With the review it is of, who answers and for whom; nothing of it is left once it is whole."""
    await Watching(store).look()
    review, asking = await approved(host, store)
    await provider.asked.wait()
    provider.growth.add("A warm sweater of fine wool, ")
    (partial,) = await store.until(bool)
    assert (partial.review, partial.model, partial.target, partial.call) == (
        review,
        "m",
        "python catalogue.py",
        "describe",
    )
    assert partial.text == "A warm "
    provider.growth.add("made in a small place near the lake.")
    (partial,) = await store.until(lambda found: "fine" in found[0].text)
    assert partial.text == "A warm sweater of fine wool, made in a small "
    provider.answer.set_result("A warm sweater.")
    assert (await asking).text == "A warm sweater."
    await store.until(lambda found: not found)


async def test_nobody_looks_and_nothing_is_told(host, provider, store):
    """The provider is asked as if it could not tell."""
    _, asking = await approved(host, store)
    await provider.asked.wait()
    assert provider.growth is None
    provider.answer.set_result("ok")
    await asking
    assert not store.changed.is_set()


async def test_what_no_person_let_pass_is_not_shown(provider, store):
    """Whoever answers without asking is not held up by looking whether anybody looks."""
    await Watching(store).look()
    host = Host(provider, store=store, review="never")
    asking = asyncio.create_task(host(request(), origin()))
    await provider.asked.wait()
    assert provider.growth is None
    provider.answer.set_result("ok")
    await asking


async def test_another_attempt_begins_anew(host, provider, store):
    """What a model wrote that failed then is no part of what the next one writes."""
    await Watching(store).look()
    _, asking = await approved(host, store)
    await provider.asked.wait()
    provider.growth.add("The first attempt, which is to fail soon ")
    await store.until(bool)
    provider.growth.begin("other")
    (partial,) = await store.until(lambda found: found[0].model == "other")
    assert partial.text == ""
    provider.answer.set_result("ok")
    await asking


async def test_a_failure_leaves_nothing(host, provider, store):
    """And neither does a server that gives up."""
    for end in (lambda asking: provider.answer.set_exception(ProviderFailure("timeout", "late")), asyncio.Task.cancel):
        await Watching(store).look()
        _, asking = await approved(host, store)
        await provider.asked.wait()
        provider.growth.add("Something that will never be finished, as it is ")
        await store.until(bool)
        end(asking)
        await asyncio.gather(asking, return_exceptions=True)
        await store.until(lambda found: not found)
        provider.asked.clear()
        provider.answer = asyncio.get_running_loop().create_future()


async def test_an_answer_that_comes_too_fast_is_seen_when_it_is_whole(host, provider, store):
    """Nobody reads as fast, and what waits is bounded."""
    await Watching(store).look()
    _, asking = await approved(host, store)
    await provider.asked.wait()
    for _ in range(growth.MAX_WAITING // 1_000 + 10):
        provider.growth.add("twenty characters.. " * 50)
    (partial,) = await store.until(lambda found: bool(found) and found[0].cut)
    assert partial.text == ""
    provider.answer.set_result("ok")
    await asking


async def test_a_store_that_fails_holds_nothing_up(host, provider, store, monkeypatch):
    """The answer goes its way; it is shown when it is whole."""
    await Watching(store).look()

    async def failing(row):
        store.changed.set()
        raise OSError

    monkeypatch.setattr(store, "keep_partial", failing)
    _, asking = await approved(host, store)
    await provider.asked.wait()
    store.changed.clear()
    provider.growth.add("Something that cannot be kept anywhere at all ")
    await store.changed.wait()
    provider.answer.set_result("ok")
    assert (await asking).text == "ok"


async def test_a_store_that_stands_still_holds_no_request_up(host, provider, store, monkeypatch):
    """Whether anybody looks is found out soon, or not at all."""

    async def standing():
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "watched", standing)
    monkeypatch.setattr(growth, "_LOOK", 0.0)
    _, asking = await approved(host, store)
    provider.answer.set_result("ok")
    assert (await asking).text == "ok"
    assert provider.growth is None


async def test_those_who_look_say_so_now_and_then():
    """Not with each look."""
    clock = Clock()
    said: list[float] = []

    class Store(MemoryStore):
        async def watch(self, until: float) -> None:
            said.append(until)

    watching = Watching(Store(), clock)
    for _ in range(30):
        await watching.look()
        clock.now += 1
    assert len(said) == 3


def test_second_attempt_does_not_flow():
    """What was handed on cannot be taken back, so that another attempt would mix two answers."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 1_000)
    flow.begin("a")
    flow.add("The first attempt says something of some length ")
    flow.begin("b")
    flow.add("The second attempt says something else entirely ")
    assert "".join(pieces).startswith("The first attempt")
    assert "second" not in "".join(pieces)


def test_attempt_of_which_nothing_flowed_is_forgotten():
    """Then there is nothing to take back."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 1_000)
    flow.begin("a")
    flow.add("short")
    flow.begin("b")
    flow.add("The second attempt says something else entirely ")
    assert "".join(pieces).startswith("The second")
    assert "short" not in "".join(pieces)


def test_flow_ends_where_the_bound_of_the_request_does():
    """A service that ignores the bound cannot fill a program's memory."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 64, masks=False)
    flow.begin(None)
    for _ in range(100):
        flow.add("word " * 4)
    assert len("".join(pieces)) <= 64


@pytest.mark.parametrize("piece", [500, 10**6])
def test_secret_in_long_data_without_blanks_is_masked(piece: int):
    """As in JSON without blanks, which is data as a whole, and may hold a key anywhere."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 10**6)
    flow.begin(None)
    key = "AKIA" + "Q3EGRIXZ7DJWPL2M"
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    data = f'{{"key":"{key}","rows":[{"1234567," * 3_500}0],"token":"{token}","more":[{"1234567," * 6_000}0]}}'
    for at in range(0, len(data), piece):
        flow.add(data[at : at + piece])
    flowed = "".join(pieces)
    assert len(flowed) > 40_000
    assert key not in flowed
    assert token not in flowed
    assert mask_text(data).startswith(flowed)


def test_long_data_without_blanks_passes_as_it_is():
    """No secret is that long; what passes is exactly what came."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 10**6)
    flow.begin(None)
    data = "ab" * 30_000
    flow.add(data)
    assert data.startswith("".join(pieces))
    assert len("".join(pieces)) > 1_000


# In pieces, so that no scanner of repositories takes it for a real one.
HEADING = "RSA PRIV" + "ATE KEY-----"
KEY = f"-----BEGIN {HEADING}\n" + "MIIEowIBAAKCAQEA7b4cJq\n" * 20 + f"-----END {HEADING}"


def views(text: str, sizes: random.Random | int) -> list[str]:
    """Let a text come in pieces. Returns all that was shown on the way."""
    growing, seen, at = Unfinished(), [], 0
    while at < len(text):
        size = sizes if isinstance(sizes, int) else sizes.randint(1, 9)
        growing.add(text[at : at + size])
        seen.append(growing.text)
        at += size
    return seen


def test_a_text_grows_word_by_word():
    """Of what has come, all is shown but the end, where a word may still go on."""
    assert views("A warm sweater of fine wool, made in Basel", 6)[-1] == "A warm sweater of fine "


def test_a_text_without_blanks_grows_too():
    """Chinese is written without any."""
    assert views("这是一件用细羊毛织成的毛衣、产于巴塞尔的一家小作坊、非常暖和。", 3)[-1].startswith("这是一件用细羊毛")


@pytest.mark.parametrize("secret", [*filter(find_secrets, SECRETS.values()), KEY])
def test_no_part_of_a_secret_is_ever_shown(secret):
    """However it is cut into pieces; the heading of a key is no secret, as long as nothing of the key follows."""
    text = f"Take this: {secret} and keep it to yourself, will you please?"
    parts = [text[found.start : found.end] for found in find_secrets(text)]
    pieces = {part[at : at + 12] for part in parts for at in range(len(part) - 11)}
    final = mask_text(text)
    hidden = {piece for piece in pieces if piece not in final and "BEGIN" not in piece}
    assert hidden
    chance = random.Random(7)
    for shown in [view for _ in range(5) for view in views(text, chance)] + views(text, 1):
        assert [piece for piece in hidden if piece in shown] == []


def test_a_secret_of_two_words_is_masked_as_one():
    """However much later the second of them comes."""
    growing = Unfinished()
    growing.add("A header of the form Authorization: Bearer    ")
    growing.add("abcdefgh12345678ABCDEFGH and so on, as long as anybody likes to read")
    assert growing.text == "A header of the form Authorization: [bearer token] and so on, as long as "


def test_a_key_of_several_lines_waits_for_its_end():
    """Before its end has come it looks like a heading with some text below."""
    growing = Unfinished()
    growing.add("Here it is: " + KEY[:300])
    assert growing.text == "Here it is: "
    growing.add(KEY[300:] + "\nThat was all there is to be said about it.")
    assert "MII" not in growing.text
    assert "[private key]" in growing.text


def test_only_the_end_of_a_long_text_is_held():
    """With how much stands before it."""
    growing = Unfinished()
    for _ in range(1_000):
        growing.add("twenty characters.. ")
    assert len(growing.text) == MAX_SHOWN
    assert growing.omitted + len(growing.text) in range(19_960, 20_001)


def test_data_without_an_end_is_not_held_for_ever():
    """No secret is as long as that, and no memory of ours either."""
    growing = Unfinished()
    # With the last of these it is too much once more.
    for _ in range(222):
        growing.add("A" * 1_000)
    growing.add(" and then some words that follow it" * 20)
    assert "\u2026" in growing.text
    assert growing.text.endswith(" and then some ")


def test_small_pieces_cost_no_more_than_large_ones(monkeypatch: pytest.MonkeyPatch):
    """A model writes a few characters at a time; without blanks, all of them would be examined again with each."""
    examined = 0

    def counted(text: str) -> list[SecretFinding]:
        nonlocal examined
        examined += len(text)
        return find_secrets(text)

    monkeypatch.setattr(growth, "find_secrets", counted)
    growing = Unfinished()
    for _ in range(5_000):
        growing.add("1234567")
    assert examined < 50 * 5_000 * 7


async def test_what_is_kept_is_read_again():
    """With the review and the moment, in the order in which they began."""
    store = MemoryStore()
    partial = Partial(target="python a.py", name="a.py", model="m", text="A warm ", omitted=3)
    for id, began in (("1", 1.0), ("2", 2.0)):
        body = encode_value(partial).decode()
        await store.keep_partial(PartialRow(id=id, host=store.host, began=began, body=body))
    first, second = await partials_in(store)
    assert (first.review, second.review, second.began) == ("1", "2", 2.0)
    assert (first.text, first.omitted) == ("A warm ", 3)
