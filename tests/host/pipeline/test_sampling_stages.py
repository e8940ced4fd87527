"""What follows from each decision, from the request to the answer."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from antiphon.errors import InternalError, InvalidParams, Rejected
from antiphon.host import Approve, Deny, Edit, Host, Manual, ModelPrice, NoReviewer, Policy, Rule, Scripted, digest
from antiphon.host.models.selection import Chosen
from antiphon.wire.content import ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.sampling import CreateMessageResult
from antiphon.wire.tools import Tool
from tests.host.asks import Person, approve, origin, request, write

TOOLS = [Tool(name="f", input_schema={})]
PRICE = ModelPrice(input=Decimal(1), output=Decimal(0))
FORM = ElicitRequestParams.form("Who?", {"properties": {"name": {"type": "string"}}, "required": ["name"]})


class Waiting(Person):
    """A person who never decides, and says when they have been asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.given_up = False

    async def review(self, item):
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.given_up = True
            raise

    async def elicit(self, item):
        return await self.review(item)


async def reason(host: Host, params=None, ask=None) -> str:
    """Return why the host refuses."""
    with pytest.raises(Rejected) as caught:
        await host(params or request(), ask or origin())
    return caught.value.data["reason"]


async def test_an_approved_request_is_sent_as_shown():
    """The provider gets what the person saw."""
    provider, person = Scripted(["A warm one."]), Person(approve)
    result = await Host(provider, reviewer=person)(request(), origin())
    assert result.text == "A warm one."
    assert provider.requests == [person.shown[0].params]
    assert person.shown[0].origin == origin()


async def test_a_denied_request_reaches_no_provider():
    """The reason a person gives is a note on this side, not data for the server."""
    provider = Scripted(["never"])
    host = Host(provider, reviewer=Person(lambda item: Deny(reason="too nosy")))
    with pytest.raises(Rejected) as caught:
        await host(request(), origin())
    assert caught.value.data == {"reason": "user"}
    assert caught.value.__notes__ == ["denied: too nosy"]
    assert provider.requests == []


async def test_an_edited_request_is_sent_instead():
    """What the person made of it goes to the provider."""
    provider = Scripted(["ok"])
    edited = request("Describe a hat", max_tokens=50)
    await Host(provider, reviewer=Person(lambda item: Edit(params=edited, digest=digest(edited))))(request(), origin())
    assert provider.requests == [edited]


@pytest.mark.parametrize("wider", [request(max_tokens=101), request(tools=TOOLS), request(max_tokens=0)])
async def test_an_edit_may_not_want_more_than_the_server_did(wider):
    """Not even when a reviewer of somebody's own making does so."""
    provider = Scripted(["never"])
    host = Host(provider, reviewer=Person(lambda item: Edit(params=wider, digest=digest(wider))))
    with pytest.raises(InternalError):
        await host(request(), origin())
    assert provider.requests == []


async def test_an_answer_in_person_needs_no_provider():
    """And says that a person wrote it."""
    provider = Scripted([])
    result = await Host(provider, reviewer=Person(write("By hand.")))(request(), origin())
    assert (result.text, result.model, provider.requests) == ("By hand.", "human", [])


async def test_the_manual_provider_is_always_asked_in_person():
    """Even where the policy allows everything; approving alone is no answer."""
    person = Person(write("By hand."))
    host = Host("manual", reviewer=person, review="never")
    assert (await host(request(), origin())).text == "By hand."
    assert person.shown[0].choices == {"deny", "answer"}
    with pytest.raises(InternalError):
        await Host(Manual(), reviewer=Person(approve))(request(), origin())


async def test_what_the_policy_allows_is_not_asked():
    """No person, no delay."""
    person = Person(approve)
    host = Host(Scripted(["ok"]), reviewer=person, policy=Policy(rules=(Rule(effect="allow", max_tokens=100),)))
    await host(request(), origin())
    assert person.shown == []


async def test_what_the_policy_denies_is_not_asked_either():
    """Nor sent."""
    person = Person(approve)
    host = Host(Scripted([]), reviewer=person, policy=Policy(rules=(Rule(effect="deny"),)))
    assert await reason(host) == "policy"
    assert person.shown == []


async def test_without_a_person_everything_is_refused():
    """No reviewer, one without a terminal, or one whose terminal vanishes: all say so."""
    gone = Person(lambda item: (_ for _ in ()).throw(NoReviewer("gone")))
    for reviewer in (None, Person(approve, available=False), gone):
        assert await reason(Host(Scripted([]), reviewer=reviewer)) == "no-reviewer"
    assert await reason(Host("manual", reviewer=None, review="never")) == "no-reviewer"


async def test_a_grant_spares_the_next_question():
    """For this session: the second request of the kind goes by itself, one with tools does not."""
    person = Person(lambda item: Approve(digest=digest(item.params), scope="session"))
    host = Host(Scripted(["1", "2", "3"]), reviewer=person)
    await host(request(), origin("1"))
    await host(request("Describe a hat"), origin("2", call="call-2"))
    assert len(person.shown) == 1
    await host(request(tools=TOOLS), origin("3"))
    assert len(person.shown) == 2


async def test_a_deny_rule_outranks_a_grant():
    """What was written down beforehand stands above what was allowed in passing."""
    person = Person(lambda item: Approve(digest=digest(item.params), scope="session"))
    host = Host(Scripted(["1"]), reviewer=person, policy=Policy(rules=(Rule(effect="deny", background=True),)))
    await host(request(), origin())
    assert await reason(host, ask=origin("2", call=None)) == "policy"


async def test_context_that_is_not_offered_is_left_out_and_shown():
    """2025-11-25: an includeContext that was not declared is ignored; the person sees that it was asked for."""
    provider, person = Scripted(["ok"]), Person(approve)
    await Host(provider, reviewer=person)(request(include_context="allServers"), origin())
    assert provider.requests[0].include_context is None
    assert person.shown[0].received.include_context == "allServers"
    assert [risk.kind for risk in person.shown[0].risks] == ["context"]


async def test_tools_are_refused_where_the_provider_takes_none():
    """2025-11-25: an error if tools are given but sampling.tools was not declared."""
    with pytest.raises(InvalidParams) as caught:
        await Host("manual", reviewer=Person(write("x")))(request(tools=TOOLS), origin())
    assert caught.value.data == {"place": "tools"}


async def test_a_tool_use_goes_back_to_the_server():
    """The host executes nothing."""
    use = ToolUseContent(id="1", name="f", input={})
    answer = CreateMessageResult(role="assistant", content=use, model="m", stop_reason="toolUse")
    result = await Host(Scripted([answer]), reviewer=None, review="never")(request(tools=TOOLS), origin())
    assert result.blocks == [use]


async def test_a_provider_that_answers_nonsense_has_failed():
    """A tool nobody offered is not passed on."""
    answer = CreateMessageResult(role="assistant", content=ToolUseContent(id="1", name="rm", input={}), model="m")
    with pytest.raises(InternalError):
        await Host(Scripted([answer]), reviewer=None, review="never")(request(), origin())


async def test_a_provider_that_hangs_has_failed():
    """Its time is limited."""

    class Slow(Scripted):
        async def complete(self, params, *, model=None):
            await asyncio.Event().wait()

    with pytest.raises(InternalError):
        await Host(Slow([]), reviewer=None, review="never", generate_timeout=0)(request(), origin())


async def test_a_reviewer_that_fails_lets_nothing_through():
    """An error in a reviewer is not an approval."""
    person = Person(lambda item: 1 / 0)
    with pytest.raises(InternalError):
        await Host(Scripted([]), reviewer=person)(request(), origin())


async def test_an_answer_may_be_reviewed_before_it_goes():
    """Asked for with ``review_response``: approved, rewritten or denied."""
    for decide, expected in ((approve, "draft"), (write("better"), "better")):
        person = Person(approve, decide)
        host = Host(Scripted(["draft"]), reviewer=person, review_response="always")
        assert (await host(request(), origin())).text == expected
        assert person.shown[1].result.text == "draft"
    host = Host(Scripted(["draft"]), reviewer=Person(approve, lambda item: Deny()), review_response="always")
    assert await reason(host) == "user"


async def test_a_review_expires():
    """Nobody decided: refused, and the person is not asked any longer."""
    person = Waiting()
    assert await reason(Host(Scripted([]), reviewer=person, review_timeout=0.01)) == "expired"
    assert person.given_up


async def test_a_call_that_is_gone_costs_no_model_call():
    """The server has stopped waiting: whoever approved, nothing is sent to a model."""
    provider = Scripted(["late"])
    host = Host(provider, review="never", choose=lambda *_: Chosen(prices={None: PRICE}))
    assert await reason(host, ask=origin(patience=0.0)) == "expired"
    assert provider.requests == []
    assert await host.store.balances_of(["total"]) == []


async def test_a_withdrawn_request_withdraws_the_question():
    """Cancelling the answer cancels the review, and is recorded."""
    person = Waiting()
    host = Host(Scripted([]), reviewer=person)
    task = asyncio.create_task(host(request(), origin()))
    await person.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert person.given_up
    assert host.audit.records()[-1].step == "withdrawn"


async def test_every_step_is_recorded_without_content():
    """Who, when, which step, which hash; no word of the request or the answer."""
    host = Host(Scripted(["SECRET ANSWER"]), reviewer=Person(approve))
    await host(request("SECRET PROMPT", system_prompt="SECRET"), origin())
    steps = [(record.step, record.outcome) for record in host.audit.records("1")]
    assert steps == [
        ("received", ""),
        ("policy", "ask"),
        ("review", "approve"),
        ("generate", "scripted"),
        ("answered", ""),
        ("settled", "estimated"),
    ]
    assert "SECRET" not in str(host.audit.records())


async def test_an_invalid_request_is_recorded_with_its_place():
    """And refused with -32602, not with -1."""
    host = Host(reviewer=None, review="never")
    with pytest.raises(InvalidParams):
        await host(request(max_tokens=0), origin())
    assert (host.audit.records()[-1].step, host.audit.records()[-1].outcome) == ("invalid", "maxTokens")


async def test_a_form_is_filled_in_by_the_person():
    """What they did goes back."""
    filled = ElicitResult(action="accept", content={"name": "Ada"})
    person = Person(fill=filled)
    assert await Host(reviewer=person).elicit(FORM, origin()) == filled
    assert person.forms[0].params == FORM


async def test_a_form_that_nobody_can_fill_in_is_declined():
    """Headless, denied by policy, or expired: the call goes on."""
    declined = ElicitResult(action="decline")
    assert await Host(reviewer=None, review="never").elicit(FORM, origin()) == declined
    assert await Host(reviewer=Person(fill=NoReviewer("gone"))).elicit(FORM, origin()) == declined
    assert await Host(reviewer=Waiting(), review_timeout=0.01).elicit(FORM, origin()) == declined
    denying = Host(reviewer=Person(), policy=Policy(rules=(Rule(effect="deny", kind="elicitation"),)))
    assert await denying.elicit(FORM, origin()) == declined
    assert denying.audit.records()[-1].outcome == "policy"


async def test_a_withdrawn_form_withdraws_the_question():
    """As for a request."""
    person = Waiting()
    host = Host(reviewer=person)
    task = asyncio.create_task(host.elicit(FORM, origin()))
    await person.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (person.given_up, host.audit.records()[-1].step) == (True, "withdrawn")


async def test_a_form_filled_in_wrongly_is_not_sent():
    """Whoever the reviewer is: what leaves fits the schema."""
    person = Person(fill=ElicitResult(action="accept", content={"name": 7}))
    with pytest.raises(InternalError):
        await Host(reviewer=person).elicit(FORM, origin())


async def test_a_form_that_cannot_be_read_is_refused():
    """With the place named."""
    bad = ElicitRequestParams.form("?", {"properties": {"x": {"type": "object"}}})
    with pytest.raises(InvalidParams, match=r"properties\.x\.type"):
        await Host(reviewer=Person()).elicit(bad, origin())
