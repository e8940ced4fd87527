"""Which request is a retry of which, and how long one outlives its connection."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.host import Host
from antiphon.host.review.review import ReviewItem
from antiphon.model_api.dialects.asked import Failure
from antiphon.model_api.model_calls import MAX_KEPT, MAX_OPEN, ModelCalls
from tests.host.asks import approve
from tests.model_api.served import Slow, asked, door

CHAT = "/v1/chat/completions"


class Thinker:
    """A person who decides when told to."""

    available = True

    def __init__(self) -> None:
        self.shown: list[ReviewItem] = []
        self.asked = asyncio.Event()
        self.decides = asyncio.Event()

    async def review(self, item: ReviewItem):
        self.shown.append(item)
        self.asked.set()
        await self.decides.wait()
        return approve(item)


async def test_retries_of_a_client_put_one_question_before_a_person():
    """The client gives up twice while somebody thinks; its last attempt gets the answer to the first question."""
    person = Thinker()
    host = Host("echo", reviewer=person)
    async with door(host) as here:
        attempts = 0

        async def counted(request):
            nonlocal attempts
            attempts += 1
            if attempts == 3:
                person.decides.set()

        async with here.openai(timeout=0.5, max_retries=12) as client:
            client._client.event_hooks["request"].append(counted)
            said = await client.chat.completions.create(**asked())
    assert said.choices[0].message.content == "[echo] hello"
    assert attempts >= 3
    assert len(person.shown) == 1


async def test_equal_requests_that_are_no_retries_stay_two():
    """A program that asks the same twice wants two answers."""
    person = Thinker()
    async with door(Host("echo", reviewer=person)) as here, here.plain({"x-stainless-retry-count": "0"}) as client:
        both = [asyncio.create_task(client.post(CHAT, json=asked())) for _ in range(2)]
        while len(person.shown) < 2:
            await person.asked.wait()
            person.asked.clear()
        person.decides.set()
        said = [(await each).status_code for each in both]
    assert said == [200, 200]


async def test_idempotency_key_names_one_request():
    """The same key joins the request, whatever the count of retries; with another body it is refused."""
    host = Host("echo", review="never")
    async with door(host) as here, here.plain({"idempotency-key": "k1"}) as client:
        first = await client.post(CHAT, json=asked())
        again = await client.post(CHAT, json=asked())
        other = await client.post(CHAT, json=asked("something else"))
    assert [each.status_code for each in (first, again, other)] == [200, 200, 409]
    assert len({record.ask for record in host.audit.records()}) == 1


async def test_client_that_hangs_up_is_charged_for_what_was_used():
    """A model that has begun is not stopped: its usage is then known, and its answer waits for a retry."""
    provider = Slow()
    host = Host(provider, review="never")
    async with door(host) as here, here.plain() as client:
        task = asyncio.create_task(client.post(CHAT, json=asked()))
        await provider.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for piece in ("Here it is.", None):
            provider.pieces.put_nowait(piece)
        retry = await client.post(CHAT, json=asked(), headers={"x-stainless-retry-count": "1"})
    assert retry.json()["choices"][0]["message"]["content"] == "Here it is."
    settled = [record for record in host.audit.records() if record.step == "settled"]
    assert [(each.outcome, each.input_tokens, each.output_tokens) for each in settled] == [("used", 7, 5)]


async def test_end_of_a_process_withdraws_what_it_asked():
    """The question disappears with the program that asked it; what a model may have used is charged as uncertain."""
    import openai

    provider = Slow()
    host = Host(provider, review="never")
    async with door(host) as here, here.openai(max_retries=0) as client:
        task = asyncio.create_task(client.chat.completions.create(**asked()))
        await provider.began.wait()
        here.equipment.ended()
        with pytest.raises(openai.AuthenticationError):
            await task
        assert len(here.calls) == 0
    settled = [record for record in host.audit.records() if record.step == "settled"]
    assert [each.outcome for each in settled] == ["unknown"]


async def test_request_is_forgotten_some_time_after_its_connection():
    """Without a reader it lives for as long as is kept; then it is withdrawn, and reported once."""
    calls, begun, ends = ModelCalls(kept=0.0), asyncio.Event(), []
    forgotten = asyncio.Event()

    async def work(call):
        begun.set()
        await asyncio.Event().wait()

    call = calls.open(b"d", None, work)
    call.on_end = lambda delivered: (ends.append(delivered), forgotten.set())
    calls.attach(call)
    await begun.wait()
    calls.detach(call)
    await forgotten.wait()
    assert ends == [False]
    assert calls.find(b"d", None, is_retry=True) is None
    with pytest.raises(asyncio.CancelledError):
        await call.task


async def test_open_and_kept_requests_are_bounded():
    """One process cannot fill the memory: neither with what is open nor with what is kept."""
    calls, done = ModelCalls(), asyncio.Event()

    async def work(call):
        await done.wait()
        return []

    opened = [calls.open(b"%d" % at, None, work) for at in range(MAX_OPEN)]
    with pytest.raises(Failure, match="Too many"):
        calls.open(b"more", None, work)
    done.set()
    await asyncio.wait([each.task for each in opened])
    more = calls.open(b"more", None, work)
    await asyncio.wait([more.task])
    assert len(calls) == MAX_KEPT
    calls.close()
    assert len(calls) == 0


async def test_what_became_of_an_answer_is_recorded_when_it_was_sent():
    """A person sees at once that the program has the answer; nobody waits until it is forgotten."""
    person = Thinker()
    person.decides.set()
    host = Host("echo", reviewer=person)
    async with door(host) as here, here.openai() as client:
        await client.chat.completions.create(**asked())
        steps = [(record.step, record.outcome) for record in host.audit.records()]
    assert ("answered", "handed-over") in steps


async def test_nothing_begins_once_the_process_has_ended():
    """Its token may have been checked before, while the body of a request was still coming."""
    calls = ModelCalls()
    calls.close()
    with pytest.raises(Failure, match="revoked"):
        calls.open(b"one", None, lambda _call: asyncio.sleep(0, []))
    assert len(calls) == 0
