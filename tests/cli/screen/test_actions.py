"""Every decision by its keys, as far as the server that asked."""

from __future__ import annotations

import asyncio
import re
from decimal import Decimal

import pytest
from textual.widgets import Input, OptionList, TextArea

from antiphon.errors import Rejected
from antiphon.host import Approve, Deny, Edit, Regenerate, Terms, ToolItem, digest
from antiphon.host.catalogue import Catalogue, Model, Price
from antiphon.host.models.models import Models
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.cli.screen.reviewing import FORM, Asking, Reviewing, asking, reviewing
from tests.host.asks import origin, request
from tests.host.test_pipeline_models import Provider


def models() -> Models:
    """Offer two models, both of which echo."""
    free = Price(input=Decimal(0), output=Decimal(0))
    named = (Model(name=name, provider="echo", model="echo", context=9_999, price=free) for name in ("first", "second"))
    return Models(Catalogue(tuple(named), default="first"), {})


async def typed(review: Reviewing, *texts: str) -> None:
    """Type into the fields of a form, one after the other."""
    fields = [field for field in review.app.screen.query("Input, TextArea") if field.display]
    for field, text in zip(fields, texts, strict=False):
        if isinstance(field, Input):
            field.value = text
        elif isinstance(field, TextArea):
            field.text = text


async def choose(review: Reviewing, at: int, number: int = 0) -> None:
    """Choose in a list of a form."""
    list(review.app.screen.query(OptionList))[number].highlighted = at


async def rejected(task: asyncio.Task) -> Rejected:
    """Return the refusal a server is told."""
    with pytest.raises(Rejected) as refused:
        await task
    return refused.value


async def last_record(desk: Asking, step: str) -> tuple[str, str | None]:
    """Return what the record says of a decision."""
    found = [entry.record async for entry in desk.host.audit.entries() if entry.record.step == step]
    return found[-1].outcome, found[-1].by


async def test_a_approves():
    """And the next one is shown; the record says who it was."""
    async with asking() as desk:
        asked = await desk.ask("First")
        await desk.ask("Second")
        async with reviewing(desk.store) as review:
            await review.press("a", sees="Approved.")
            assert (await asked).text == "one"
            await review.sees("│ Second")
        assert await last_record(desk, "review") == ("approve", "ada")


async def test_d_denies():
    """The server learns that it was refused, and nothing else."""
    async with asking() as desk:
        asked = await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("d", sees="Denied.")
            await review.sees("Nothing is waiting.")
        assert (await rejected(asked)).data == {"reason": "user"}


@pytest.mark.parametrize(("key", "reach"), [("r", "once"), ("s", "call"), ("b", "server")])
async def test_r_s_and_b_ask_for_the_reason(key: str, reach: str):
    """And reach as far as they say: this request, its call, its server."""
    async with asking() as desk:
        asked = await desk.ask("First")
        async with reviewing(desk.store) as review:
            await review.press(key, sees="in my own words")
            await typed(review, "not now")
            await review.press("ctrl+s", sees="Denied.")
            assert review.decisions == [Deny(reason="not now", reach=reach)]
        assert "not now" in (await rejected(asked)).__notes__[0]
        blocked = [block.identity for block in await desk.store.blocks()]
        assert blocked == ([origin().identity] if reach == "server" else [])


async def test_escape_decides_nothing():
    """From any form."""
    async with asking() as desk:
        await desk.ask()
        async with reviewing(desk.store) as review:
            for key in ("r", "g", "w", "A", "?"):
                await review.ready(key)
                review.type(key)
                await review.until(lambda: review.app.screen is not review.stage)
                await review.escape()
            assert len(await desk.queue.pending()) == 1


async def test_w_answers_in_person():
    """Marks are characters again; an empty answer is none."""
    async with asking() as desk:
        asked = await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("w", sees="Your answer")
            await review.press("ctrl+s", sees="An answer is needed.")
            await typed(review, "By\nhand\u27e6U+0009\u27e7!")
            await review.press("ctrl+s", sees="Answered.")
        assert (await asked).text == "By\nhand\t!"


async def test_g_grants_within_bounds():
    """Its like passes without asking. What is no number is said beside it, and nothing typed is lost."""
    async with asking() as desk:
        asked = await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("g", sees="How many more")
            await choose(review, 2)
            await typed(review, "5", "many", "15")
            await review.press("ctrl+s", sees="A number above 0 is needed.")
            await typed(review, "5", "0.25")
            await review.press("ctrl+s", sees="Approved.")
        await asked
        [given] = await desk.host.grants.all()
        assert (given.grant.scope, given.grant.terms.uses, given.grant.terms.money) == ("always", 5, 250_000_000)
        assert given.grant.terms.until is not None
        assert (await desk.host(request(), origin("9"))).text == "two"


async def test_m_chooses_another_model():
    """For this request only; the screen says so before it is approved."""
    async with asking(provider=models()) as desk:
        asked = await desk.ask()
        async with reviewing(desk.store) as review:
            assert "first" in review.page and "Intelligence" in review.page
            await review.press("m", sees="Take this one")
            await choose(review, 1)
            await review.press("enter", sees="another model than first")
            await review.press("a", sees="Approved.")
        assert (await asked).model == "echo"
        assert ("generate", "second") in [
            (entry.record.step, entry.record.model) async for entry in desk.host.audit.entries()
        ]


async def test_m_takes_the_usual_model_again():
    """What was chosen before is marked."""
    async with asking(provider=models()) as desk:
        await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("m", "down", "enter", sees="another model than first")
            await review.press("m", "up", "enter", sees="A server wants")
            await review.until(lambda: "another model than" not in review.page)


async def test_e_edits_in_the_editor():
    """A mistake opens it again, with the mistake at the top; the difference is shown before it is sent."""
    seen: list[str] = []

    async def editor(text: str) -> str:
        seen.append(text)
        return re.sub(r"max_tokens = \d+", f"max_tokens = {999 if len(seen) == 1 else 50}", text)

    async with asking() as desk:
        asked = await desk.ask("Describe \u202e a hat")
        question = await desk.newest()
        async with reviewing(desk.store, editor=editor) as review:
            await review.press("e", sees="Approve the edited request")
            assert "- maxTokens: 100" in review.text
            assert "+ maxTokens: 50" in review.text
            await review.press("a", sees="The edited request was approved.")
        assert seen[1].startswith("# Mistake: max_tokens: must be from 1 to 100")
        assert (await asked).text == "one"
        [decision] = review.decisions
        assert isinstance(decision, Edit) and decision.params.max_tokens == 50
        assert decision.params.messages == question.item.params.messages


@pytest.mark.parametrize("outcome", ["same", "broken", "none"])
async def test_an_edit_that_comes_to_nothing_decides_nothing(outcome: str):
    """Where nothing was changed, the same mistake was left twice, or there is no editor; and the person is told."""

    async def editor(text: str) -> str:
        if outcome == "none":
            raise ValueError("there is no editor: set $VISUAL or $EDITOR")
        return text if outcome == "same" else "nonsense"

    async with asking() as desk:
        await desk.ask()
        async with reviewing(desk.store, editor=editor) as review:
            await review.press("e", sees="Nothing was decided.")
            assert len(await desk.queue.pending()) == 1


async def test_an_edit_can_go_on_or_be_given_up():
    """From the difference back to the editor, which has what was written."""
    seen: list[str] = []

    async def editor(text: str) -> str:
        seen.append(text)
        return text.replace("sweater", "hat").replace("Describe", "Draw" if len(seen) == 2 else "Describe")

    async with asking() as desk:
        await desk.ask()
        async with reviewing(desk.store, editor=editor) as review:
            await review.press("e", sees="Edit on")
            review.type("e")
            await review.sees("Draw a hat")
            await review.press("escape", sees="Nothing was decided.")
        assert "Describe a hat" in seen[1]
        assert len(await desk.queue.pending()) == 1


async def test_requests_that_are_alike_are_approved_together():
    """Each is shown whole; another system prompt is not alike."""
    async with asking() as desk:
        one, two = await desk.ask("One"), await desk.ask("Two")
        other = await desk.ask("Three", system_prompt="Be rude.")
        async with reviewing(desk.store) as review:
            await review.press("A", sees="Approve all 2")
            assert "│ One" in review.text
            await review.press("a", sees="Approved together.")
            await asyncio.wait([one, two])
            await review.sees("│ Be rude.")
        assert not other.done()


async def test_an_answer_is_released():
    """The answer is what is shown first."""
    async with asking(review_response="always") as desk:
        asked = await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("a", sees="The model's answer, before the server gets it")
            assert "\u2502 one" in review.page
            await review.press("a", sees="Nothing is waiting.")
        assert (await asked).text == "one"


async def test_2_sends_the_second_of_two_answers():
    """Both are shown, with what they took; where there is no second, the key does nothing."""
    async with asking(provider=Provider()) as desk:
        asked = await desk.ask()
        question = await desk.newest()
        made = Approve(digest=digest(question.item.params), beside="dear")
        await desk.queue.decide(question.id, made, hash=question.hash)
        async with reviewing(desk.store) as review:
            await review.sees("The second answer")
            for text in ("│ cheap 1", "cheap · $0.001 · ", "│ dear 2", "dear · $0.10 · "):
                assert text in review.page
            await review.press("2", sees="Nothing is waiting.")
        assert (await asked).text == "dear 2"


async def test_an_answer_is_denied():
    """The server does not get it."""
    async with asking(review_response="always") as desk:
        asked = await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("a", sees="The model's answer, before the server gets it")
            await review.press("d", sees="Denied.")
        await rejected(asked)


async def test_an_answer_is_rewritten():
    """Beginning with what the model wrote."""
    async with asking(review_response="always") as desk:
        asked = await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("a", sees="The model's answer, before the server gets it")
            await review.press("w", sees="Send the rewritten answer")
            assert review.app.screen.query_one(TextArea).text == "one"
            await typed(review, "won")
            await review.press("ctrl+s", sees="Answered.")
        assert (await asked).text == "won"


async def test_an_answer_is_made_once_more():
    """And reviewed again."""
    async with asking(review_response="always") as desk:
        await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("a", sees="The model's answer, before the server gets it")
            await review.press("t", sees="\u2502 two")
            assert review.decisions[1] == Regenerate()


async def test_an_answer_is_edited_in_the_editor():
    """With what nobody sees written as marks."""

    async def editor(text: str) -> str:
        assert text == "one"
        return "two\n"

    async with asking(review_response="always") as desk:
        asked = await desk.ask()
        async with reviewing(desk.store, editor=editor) as review:
            await review.press("a", sees="before the server gets it")
            await review.press("e", sees="Send the rewritten answer")
            await review.press("a", sees="Answered.")
        assert (await asked).text == "two"


async def test_another_model_answers_again():
    """The one that was chosen by m."""
    async with asking(provider=models(), review_response="always") as desk:
        await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("a", sees="before the server gets it")
            await review.press("m", "down", "enter", sees="before the server gets it")
            await review.until(lambda: review.stage.models)
            await review.press("t", sees="The model is answering again.")
        assert review.decisions[1] == Regenerate(model="second")


async def test_a_form_is_filled_in():
    """With what it offers; what does not fit is said."""
    async with asking() as desk:
        asked = await desk.ask_person()
        async with reviewing(desk.store) as review:
            assert "A server asks you for information" in review.text
            await review.press("a", sees="^S")
            await typed(review, "J", "8")
            await review.press("ctrl+s", sees="This does not fit: name: at least 2 characters")
            await typed(review, "Jo", "8")
            await choose(review, 1)
            await review.press("ctrl+s", sees="Answered.")
        result = await asked
        assert result.action == "accept"
        assert result.content == {"name": "Jo", "age": 8, "colour": "red", "likes": ["milk"]}


async def test_nothing_is_chosen_for_a_person():
    """A yes or no and a choice that are needed are not answered by sending the form; what was typed is kept."""
    form = ElicitRequestParams.form(
        "Delete 3 old drafts?",
        {
            "properties": {
                "sure": {"type": "boolean"},
                "where": {"type": "string", "enum": ["here", "there"]},
                "how": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
            },
            "required": ["sure", "where"],
        },
    )
    async with asking() as desk:
        asked = await desk.ask_person(form)
        async with reviewing(desk.store) as review:
            await review.press("a", sees="The server suggests: slow")
            await review.press("ctrl+s", sees="sure: a value is needed")
            await choose(review, 1)
            await review.press("ctrl+s", sees="where: one of the choices is needed")
            assert not asked.done()
            review.type("escape")
            await review.until(lambda: review.app.screen is review.stage)
            await review.press("a", sees="(•) no")
            await choose(review, 1, 1)
            await review.press("ctrl+s", sees="Answered.")
        assert (await asked).content == {"sure": False, "where": "there", "how": "slow"}


async def test_an_address_is_accepted_once_it_was_seen_whole():
    """With its host apart; on a small terminal one has to scroll to its end."""
    url = "https://bank.example@evil.example/?" + "x" * 3000
    async with asking() as desk:
        asked = await desk.ask_person(ElicitRequestParams.visit("Sign in", url))
        async with reviewing(desk.store, size=(80, 24)) as review:
            await review.sees("Host           evil.example")
            await review.press("a", sees="Read the whole address first")
            assert not asked.done()
            await review.pilot.press("end")
            await review.until(review.stage.seen_whole)
            await review.press("a", sees="Answered.")
        assert (await asked).action == "accept"


async def test_a_form_can_stop_its_call_and_block_its_server():
    """As any other request can; what else waits from the server is withdrawn."""
    async with asking() as desk:
        asked = await desk.ask_person(FORM)
        other = await desk.ask("Something else")
        async with reviewing(desk.store) as review:
            await review.press("b", sees="How far")
            await review.press("ctrl+s", sees="Denied.")
            assert review.decisions == [Deny(reach="server")]
        assert (await asked).action == "decline"
        await rejected(other)
        assert [block.identity for block in await desk.store.blocks()] == [origin().identity]


async def test_the_server_is_told_a_reason_that_was_chosen():
    """Only where somebody says so."""
    async with asking() as desk:
        asked = await desk.ask()
        async with reviewing(desk.store) as review:
            await review.press("r", sees="Tell the server this reason")
            await review.pilot.press("tab", "down", "down", "tab", "space")
            await review.press("ctrl+s", sees="Denied.")
            assert review.decisions == [Deny(reason="It contains something confidential", tell=True)]
        await rejected(asked)


@pytest.mark.parametrize(("key", "action"), [("d", "decline"), ("c", "cancel")])
async def test_a_form_is_declined_or_cancelled(key: str, action: str):
    """Without being opened."""
    async with asking() as desk:
        asked = await desk.ask_person(FORM)
        async with reviewing(desk.store) as review:
            await review.ready()
            review.type(key)
            assert (await asked).action == action


async def test_an_address_is_shown_and_never_opened():
    """The person says that it was visited."""
    async with asking() as desk:
        asked = await desk.ask_person(ElicitRequestParams.visit("Sign in", "https://\u0430pple.example/x"))
        async with reviewing(desk.store) as review:
            assert "https://\u0430pple.example/x" in review.page
            assert "not a plain https" in review.page
            await review.press("a", sees="Answered.")
        assert (await asked).action == "accept"


async def test_the_call_of_a_tool_is_approved():
    """What is sent and what the server says of it are told apart."""
    params = CallToolRequestParams.of("pay", {"amount": 7})
    who = origin("1")
    item = ToolItem(
        origin=type(who)(
            id="1", identity=who.identity, target=who.target, tool=Tool(name="pay", input_schema={}, description="Pays")
        ),
        params=params,
        choices=frozenset({"approve", "deny", "grant"}),
        expires_in=60,
    )
    async with asking() as desk:
        asked = await desk.waits(desk.queue.confirm(item))
        async with reviewing(desk.store) as review:
            assert "Your program wants to run a tool of a server" in review.text
            assert '"amount"' in review.page and "not to be trusted" in review.page
            assert "e Edit" not in review.text
            await review.press("a", sees="Approved.")
        decision = await asked
        assert isinstance(decision, Approve) and decision.digest == digest(params)


async def test_a_grant_for_a_tool_may_last():
    """For the session, say; it is bounded unless the person says otherwise."""
    params = CallToolRequestParams.of("pay", {})
    item = ToolItem(origin=origin(), params=params, choices=frozenset({"approve", "deny", "grant"}), expires_in=60)
    async with asking() as desk:
        asked = await desk.waits(desk.queue.confirm(item))
        async with reviewing(desk.store) as review:
            await review.press("g", sees="How many more")
            await choose(review, 1)
            await review.press("ctrl+s", sees="Approved.")
        decision = await asked
        assert isinstance(decision, Approve)
        assert (decision.scope, decision.terms) == ("session", Terms(uses=10))


async def test_what_only_a_person_can_answer_cannot_be_approved():
    """Where there is no model."""
    async with asking(provider="manual") as desk:
        asked = await desk.ask()
        async with reviewing(desk.store) as review:
            await review.sees("w Answer yourself")
            assert "a Approve" not in review.text
            await review.ready()
            await review.pilot.press("a", "e", "g", "A", "m")
            assert review.app.screen is review.stage
            assert not asked.done()
