"""Embeddings through the endpoint, with OpenAI's client as it is."""

from __future__ import annotations

import asyncio
import base64
from array import array

import openai
import pytest

from antiphon.host import Host, Policy, Rule, Scripted
from antiphon.host.providers.offline import make_echo_vectors
from antiphon.host.providers.vectors import Embedded, EmbeddingParams, pack_vectors
from antiphon.model_api.model_calls import MAX_LARGE
from antiphon.types import CreateMessageResult
from tests.host.asks import Person, approve
from tests.model_api.served import door

PATH = "/v1/embeddings"


class Waiting(Scripted):
    """Makes vectors when it is told to."""

    def __init__(self) -> None:
        super().__init__([])
        self.began, self.goes_on = asyncio.Event(), asyncio.Event()

    async def embed(self, params: EmbeddingParams, *, model: str | None = None) -> Embedded:
        self.began.set()
        await self.goes_on.wait()
        return await super().embed(params, model=model)


async def test_vendors_client_gets_the_vectors_in_either_form():
    """As floats and packed, of one text and of several, with the number of dimensions that it wants."""
    expected = await make_echo_vectors(EmbeddingParams.of(["snow in Graz", "a sweater"], dimensions=16), "scripted")
    numbers = [array("f", vector).tolist() for vector in expected.vectors]
    provider = Scripted([])
    async with door(Host(provider, reviewer=None)) as here, here.openai() as client, here.plain() as plain:
        texts = ["snow in Graz", "a sweater"]
        usual = await client.embeddings.create(model="any", input=texts, dimensions=16)
        floats = await client.embeddings.create(model="any", input=texts, dimensions=16, encoding_format="float")
        one = await client.embeddings.create(model="any", input="snow in Graz", user="somebody")
        raw = await plain.post(PATH, json={"model": "m", "input": "x", "encoding_format": "base64", "user": "y"})
    assert [each.embedding for each in usual.data] == [each.embedding for each in floats.data] == numbers
    assert ([each.index for each in usual.data], usual.model, len(one.data[0].embedding)) == ([0, 1], "scripted", 64)
    assert usual.usage.prompt_tokens == usual.usage.total_tokens > 0
    assert len(base64.b64decode(raw.json()["data"][0]["embedding"])) == 256
    assert raw.headers["antiphon-without-effect"] == "user"
    assert [params.model_preferences.hints[0].name for params in provider.embeddings] == ["any", "any", "any", "m"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": [[1, 2], [3]]}, "input"),
        ({"input": [1, 2, 3]}, "input"),
        ({"input": [1] * 5_000}, "input"),
        ({"input": ["a"] * 2_049}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", 7]}, "input[1]"),
        ({"input": None}, "input"),
        ({"input": "a", "model": None}, "model"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 2**40}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
    ],
)
async def test_request_that_cannot_be_used_names_its_member(body: dict, param: str):
    """In the vendor's own shape of error; nothing is asked of a model."""
    provider = Scripted([])
    async with door(Host(provider, reviewer=None)) as here, here.plain() as client:
        refused = await client.post(PATH, json={"model": "m", **body})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert provider.embeddings == []


async def test_refusals_have_the_vendors_errors():
    """Denied by a rule, by a person, and because nobody makes embeddings here."""
    rule = Policy(rules=(Rule(effect="deny", kind="embedding"),))

    class Talker:
        name, tools, personal = "talker", False, False

        async def complete(self, *_given: object, **_options: object) -> CreateMessageResult:
            raise AssertionError("nobody asked for a completion")

    for host, status, code in (
        (Host("echo", reviewer=None, policy=rule), 403, "refused_policy"),
        (Host(Talker(), reviewer=None), 404, "refused_no_model"),
    ):
        async with door(host) as here, here.openai() as client:
            with pytest.raises(openai.APIStatusError) as refused:
                await client.embeddings.create(model="m", input="x")
        assert (refused.value.status_code, refused.value.code) == (status, code)


async def test_retry_joins_a_request_that_is_open_and_no_vectors_are_kept(monkeypatch: pytest.MonkeyPatch):
    """A person who is asked is asked once; millions of numbers are not held for a client that may come back."""
    person = Person(approve)
    provider = Waiting()
    host = Host(provider, policy=Policy(rules=(Rule(effect="ask", kind="embedding"),)), reviewer=person)
    body = {"model": "m", "input": "x"}
    joined, forgotten = asyncio.Event(), asyncio.Event()
    async with door(host) as here, here.plain() as client:
        attach, forget = here.calls.attach, here.calls._forget
        first = asyncio.create_task(client.post(PATH, json=body))
        await provider.began.wait()
        monkeypatch.setattr(here.calls, "attach", lambda call: (attach(call), joined.set()))
        monkeypatch.setattr(here.calls, "_forget", lambda call: (forget(call), forgotten.set()))
        again = asyncio.create_task(client.post(PATH, json=body, headers={"x-stainless-retry-count": "1"}))
        await joined.wait()
        provider.goes_on.set()
        assert (await first).json() == (await again).json()
        await forgotten.wait()
        assert len(here.calls) == 0
    assert len(person.shown) == 1


async def test_open_requests_for_embeddings_are_fewer_than_others():
    """Their answers are large: one that was not read yet counts, however long its client takes."""
    provider = Waiting()
    async with door(Host(provider, reviewer=None)) as here, here.plain() as client:
        bodies = [{"model": "m", "input": f"text {at}"} for at in range(MAX_LARGE + 1)]
        tasks = [asyncio.create_task(client.post(PATH, json=body)) for body in bodies]
        (refused,), waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        provider.goes_on.set()
        served = [await task for task in waiting]
        after = await client.post(PATH, json=bodies[0])
    assert (refused.result().status_code, refused.result().json()["error"]["code"]) == (429, "refused_limit")
    assert [each.status_code for each in (*served, after)] == [200] * (MAX_LARGE + 1)


async def test_end_of_the_process_withdraws_what_is_open():
    """As for every call with its token."""
    provider = Waiting()
    host = Host(provider, reviewer=None)
    async with door(host) as here, here.plain() as client:
        waiting = asyncio.create_task(client.post(PATH, json={"model": "m", "input": "x"}))
        await provider.began.wait()
        here.equipment.ended()
        assert (await waiting).status_code == 401
    assert [record.step for record in host.audit.records()][-2:] == ["withdrawn", "settled"]


async def test_large_response_does_not_hold_the_loop():
    """Two thousand vectors are written in pieces, between which other tasks run."""

    class Many(Scripted):
        async def embed(self, params: EmbeddingParams, *, model: str | None = None) -> Embedded:
            return Embedded(vectors=pack_vectors([[0.25] * 1_536]) * len(params.texts), model="many")

    turns, is_over = 0, asyncio.Event()

    async def count() -> None:
        nonlocal turns
        while not is_over.is_set():
            turns += 1
            await asyncio.sleep(0)

    async with door(Host(Many([]), reviewer=None)) as here, here.openai() as client:
        counting = asyncio.create_task(count())
        made = await client.embeddings.create(model="m", input=["x"] * 2_048)
        is_over.set()
        await counting
    assert (len(made.data), len(made.data[0].embedding)) == (2_048, 1_536)
    # 16 MB in pieces of 64 KiB.
    assert turns > 200
