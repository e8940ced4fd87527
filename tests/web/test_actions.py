"""Decisions by forms: what they come to on the server's side, and what is said when they cannot be made."""

from __future__ import annotations

import asyncio
import html
import re

import pytest
from msgspec import structs

from antiphon.errors import Rejected
from antiphon.host import ChangedCall, Echo, Policy, ResultRule, Scripted
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, Tool
from tests.host.asks import origin, request
from tests.web.pages import desk

FORM = ElicitRequestParams.form(
    "Who?",
    {
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "likes": {"type": "array", "items": {"enum": ["tea", "coffee"]}},
            "agrees": {"type": "boolean"},
        },
        "required": ["name"],
    },
)


async def test_an_approval_travels_back():
    """What was shown is sent, and the answer is the provider's; who decided is in the record."""
    async with desk() as page:
        question, task = await page.asked()
        sent = await page.post(f"/review/{question.id}/approve", page.about(question))
        assert (sent.status_code, sent.json()["done"]) == (200, "Approved.")
        assert (await task).text == "ok"
        assert [record.by for record in page.host.audit.records() if record.step == "review"] == ["page 1"]


async def test_what_was_not_shown_is_not_approved():
    """A digest of something else is refused, and the request still waits."""
    async with desk() as page:
        question, task = await page.asked()
        refused = await page.post(f"/review/{question.id}/approve", page.about(question, "0" * 64))
        assert refused.status_code == 409
        assert "not what is kept" in refused.json()["problem"]
        assert not task.done()


async def test_the_second_decision_is_told_who_was_faster():
    """By the name that the first one gave."""
    async with desk() as page:
        question, task = await page.asked()
        await page.post("/settings", {"language": "en", "theme": "auto", "name": "Ada"})
        await page.post(f"/review/{question.id}/deny", page.about(question, reason="no"))
        late = await page.post(f"/review/{question.id}/approve", page.about(question))
        assert (late.status_code, late.json()["problem"]) == (409, "Ada was faster and has decided.")
        with pytest.raises(Rejected):
            await task


async def test_an_edit_is_previewed_and_sent():
    """The preview has the difference and the digest; the same form with it is the decision."""
    provider = Scripted(["ok"])
    async with desk(provider=provider) as page:
        question, task = await page.asked(system_prompt="Be brief")
        form = {"max_tokens": "50", "system": "Be long", "text-0-0": "Describe a scarf"}
        shown = await page.post(f"/review/{question.id}/preview", form)
        found = re.search(r'name="digest" value="([0-9a-f]{64})"', shown.text)
        assert found
        done = await page.post(f"/review/{question.id}/edit", {**form, **page.about(question, found[1])})
        assert done.status_code == 200
        await task
        sent = provider.requests[0]
        assert (sent.max_tokens, sent.system_prompt, sent.messages[0].text) == (50, "Be long", "Describe a scarf")


async def test_a_person_answers_a_form():
    """With values of the right kinds."""
    async with desk() as page:
        task = asyncio.create_task(page.host.elicit(FORM, origin()))
        page.tasks.append(task)
        question = await page.arrived(set())
        form = [("action", "accept"), ("field-0", "Ada"), ("field-1", "36"), ("field-2", "tea"), ("field-3", "true")]
        wrong = await page.post(f"/review/{question.id}/fill", page.about(question, action="accept"))
        assert wrong.status_code == 422
        assert (await page.post(f"/review/{question.id}/fill", page.about(question, **dict(form)))).status_code == 200
        assert (await task).content == {"name": "Ada", "age": 36, "likes": ["tea"], "agrees": True}


async def test_what_cannot_be_chosen_is_refused():
    """An answer for a form, a form for a request, an action that there is not, a question that there is not."""
    async with desk() as page:
        question, _ = await page.asked()
        for action, status in (("fill", 422), ("regenerate", 409), ("explode", 404)):
            assert (await page.post(f"/review/{question.id}/{action}", page.about(question))).status_code == status
        assert (await page.post("/review/none/deny", {})).status_code == 404
        assert (await page.post("/review/none/preview", {"max_tokens": "1"})).status_code == 404


async def test_only_what_is_alike_is_approved_together():
    """One that is not takes all of them with it; those that are go together."""
    async with desk(provider=Echo()) as page:
        one, first = await page.asked(text="One")
        two, second = await page.asked(text="Two")
        other, third = await page.asked(text="Three", system_prompt="Be rude")
        fields: dict[str, object] = {}
        for each in (one, two, other):
            fields |= {f"{name}-{each.id}": value for name, value in page.about(each).items()}
        mixed = await page.post("/alike", {**fields, "id": [one.id, other.id]})
        assert (mixed.status_code, first.done()) == (422, False)
        none = await page.post("/alike", fields)
        assert none.status_code == 422
        done = await page.post("/alike", {**fields, "id": [one.id, two.id]})
        assert done.status_code == 200
        await asyncio.gather(first, second)
        assert not third.done()


async def test_a_grant_is_given_and_revoked():
    """Once it is gone, revoking it again says so."""
    async with desk() as page:
        question, task = await page.asked()
        form = page.about(question, scope="session", uses="3")
        assert (await page.post(f"/review/{question.id}/approve", form)).status_code == 200
        await task
        [given] = await page.host.grants.all()
        assert given.grant.terms.uses == 3
        assert (await page.post(f"/grants/{given.id}/revoke", {})).status_code == 200
        assert (await page.post(f"/grants/{given.id}/revoke", {})).status_code == 404
        assert await page.host.grants.all() == []


async def test_a_rule_for_calls_like_this_is_shown_before_it_is_saved():
    """In words and as it is kept; afterwards it is among the grants."""
    async with desk() as page:
        asked = structs.replace(origin("1"), tool=Tool(name="order", input_schema={}))
        call = CallToolRequestParams.of("order", {"sku": "P-1", "n": 5})
        page.tasks.append(asyncio.create_task(page.host.confirm(call, asked)))
        question = await page.arrived(set())
        shown = (await page.get(f"/review/{question.id}")).text
        assert f"/review/{question.id}/like" in shown
        form = (await page.get(f"/review/{question.id}/like?arg-1=most")).text
        assert "n is at most 5" in form
        assert "sku is &#34;P-1&#34;" in form
        assert "&amp;" not in form[form.index("like-title") : form.index("<pre")]
        assert ">sku is &#34;P-1&#34;</option>" in form
        assert "&amp;#" not in form
        found = re.search(r'name="when" value="([^"]*)"', form)
        assert found is not None
        when = html.unescape(found[1])
        await page.post(
            f"/review/{question.id}/approve", page.about(question, scope="always", unbounded="true", when=when)
        )
        assert await page.tasks[-1]
        assert await page.host.confirm(CallToolRequestParams.of("order", {"sku": "P-1", "n": 4}), asked)
        assert html.escape(when, quote=True).replace("&quot;", "&#34;") in (await page.get("/grants")).text


async def test_labels_and_results_are_decided_on_the_page():
    """Boxes for the labels at first use; a result is shown with its risks, and passed on by one button."""
    policy = Policy(default="flow", results=(ResultRule(effect="ask", found=("secret",)),))
    async with desk(policy=policy) as page:
        asked = structs.replace(origin("1"), tool=Tool(name="order", input_schema={}))
        call = CallToolRequestParams.of("order", {"sku": "P-1"})
        page.tasks.append(asyncio.create_task(page.host.confirm(call, asked)))
        question = await page.arrived(set())
        shown = (await page.get(f"/review/{question.id}")).text
        assert shown.count('name="label"') == 3
        assert "this tool by itself can read data of yours" in shown
        await page.post(f"/review/{question.id}/approve", page.about(question, of_labels="1", label="private"))
        assert await page.tasks[-1]
        row = (await page.store.standing((asked.identity,), "order")).definition
        assert row is not None
        assert row.labels == "private"
        result = CallToolResult(content=[TextContent(text="key AKIAIOSFODNN7EXAMPLE")])
        page.tasks.append(asyncio.create_task(page.host.examine(result, call, asked)))
        question = await page.arrived({question.id})
        shown = (await page.get(f"/review/{question.id}")).text
        assert "has run: may the model get its result?" in shown.replace("</b>", "").replace("<b>", "")
        assert "AKIAIOSFODNN7EXAMPLE" in shown
        await page.post(f"/review/{question.id}/approve", page.about(question))
        assert await page.tasks[-1] == result


async def test_a_grant_that_a_script_gives_without_bounds_is_bounded():
    """As the form of the page is filled in at first."""
    async with desk() as page:
        question, task = await page.asked()
        form = page.about(question, scope="session")
        assert (await page.post(f"/review/{question.id}/approve", form)).status_code == 200
        await task
        [given] = await page.host.grants.all()
        assert (given.grant.terms.uses, given.grant.terms.money) == (10, 500_000_000)


async def test_a_server_is_blocked_and_unblocked():
    """A denial that reaches the server ends what it asks; unblocking lets it ask again."""
    async with desk() as page:
        question, task = await page.asked()
        await page.post(f"/review/{question.id}/deny", page.about(question, reach="server"))
        with pytest.raises(Rejected):
            await task
        with pytest.raises(Rejected):
            await page.host(request(), origin())
        assert "python catalogue.py" in (await page.get("/grants")).text
        assert (await page.post("/unblock", {"identity": question.identity})).status_code == 200
        assert (await page.post("/unblock", {"identity": question.identity})).status_code == 404
        _, waiting = await page.asked()
        assert not waiting.done()


async def test_settings_are_kept_in_the_browser():
    """And only those that there are."""
    async with desk() as page:
        assert (await page.post("/settings", {"language": "xx", "theme": "auto"})).status_code == 422
        assert (await page.post("/settings", {"language": "zh", "theme": "dark", "name": "x" * 99})).status_code == 200
        shown = (await page.get("/settings")).text
        assert 'lang="zh-Hans" data-theme="dark"' in shown
        assert f'value="{"x" * 40}"' in shown


async def test_one_more_browser_is_let_in():
    """By an address that opens once."""
    async with desk() as page:
        address = (await page.post("/settings/invite", {})).json()["address"]
        assert address.startswith(f"{page.running.origin}/open?token=")
        assert (await page.client.get(address)).status_code == 303


async def test_an_answer_is_made_again():
    """With another turn of the model, which is reviewed as well."""
    async with desk(provider=Scripted(["one", "two"]), review_response="always") as page:
        question, task = await page.asked()
        await page.post(f"/review/{question.id}/approve", page.about(question))
        first = await page.arrived({question.id})
        assert (await page.post(f"/review/{first.id}/regenerate", page.about(first))).status_code == 200
        second = await page.arrived({question.id, first.id})
        await page.post(f"/review/{second.id}/approve", page.about(second))
        assert (await task).text == "two"


async def test_what_became_of_a_decision_is_said():
    """As far as anybody knows: nothing is claimed before."""
    async with desk() as page:
        question, task = await page.asked()
        await page.post(f"/review/{question.id}/approve", page.about(question))
        assert "Handed over" not in (await page.get("/outcomes")).text
        await task
        await page.host.handed_over(question.item.origin, None)
        assert "Approved.</strong> Handed over to the server." in (await page.get("/outcomes")).text


async def test_a_permission_can_be_taken_back_until_it_counts():
    """Afterwards it is too late, and said to be."""
    async with desk(undo=30) as page:
        question, task = await page.asked()
        held = (await page.post(f"/review/{question.id}/approve", page.about(question))).json()
        assert held["undo"] == question.id
        assert 0 < held["seconds"] <= 30
        of = f"{question.id} {(await page.queue.get(question.id)).decided}"
        assert (await page.post("/undo", {"of": of})).status_code == 200
        assert not task.done()
        await page.post(f"/review/{question.id}/deny", page.about(question))
        late = await page.post("/undo", {"of": of})
        assert (late.status_code, late.json()["problem"]) == (422, "Too late to take it back.")


async def test_a_question_that_cannot_be_read_is_not_said_to_be_over():
    """A newer release has stored it; it still waits, and whoever opens or decides it is told so."""
    async with desk() as page:
        question, task = await page.asked()
        form = page.about(question)
        row = await page.store.review(question.id)
        page.store._keep(structs.replace(row, item="{}"))
        for action in ("approve", "deny"):
            told = await page.post(f"/review/{question.id}/{action}", form)
            assert (told.status_code, task.done()) == (409, False)
            assert told.json()["problem"].startswith("It is still waiting, but this version cannot read it.")
        assert "this version cannot read it" in (await page.get(f"/review/{question.id}")).text


async def test_several_are_denied_with_one_reason():
    """Each by its own id and hash; what was not selected still waits."""
    async with desk() as page:
        asked = [await page.asked(text=text) for text in ("One", "Two", "Three")]
        chosen = [f"{question.id} {question.hash}" for question, _ in asked[:2]]
        done = await page.post("/several", {"ask": chosen, "reason": "not today"})
        assert (done.status_code, done.json()["done"]) == (200, "The selected requests were denied.")
        for _, task in asked[:2]:
            with pytest.raises(Rejected) as denied:
                await task
            assert denied.value.__notes__ == ["denied: not today"]
        assert [question.id for question in await page.queue.pending()] == [asked[2][0].id]


@pytest.mark.parametrize("wrong", ["hash", "id", "nothing"])
async def test_several_are_denied_as_they_were_shown_or_not_at_all(wrong: str):
    """One that is not what the list showed, or not there, keeps the others waiting too."""
    async with desk() as page:
        first, second = [(await page.asked(text=text))[0] for text in ("One", "Two")]
        other = {"hash": f"{second.id} {'0' * 64}", "id": f"{'0' * 32} {second.hash}"}.get(wrong)
        chosen = [f"{first.id} {first.hash}", other] if other else []
        refused = await page.post("/several", {"ask": chosen})
        assert refused.status_code == {"hash": 409, "id": 404, "nothing": 422}[wrong]
        assert len(await page.queue.pending()) == 2


async def test_the_arguments_of_a_call_are_edited_as_fields():
    """What does not fit names its field, and what fits runs; the note names what changed."""
    schema = {"properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}, "required": ["sku"]}
    asked = structs.replace(origin("8"), tool=Tool(name="order", input_schema=schema))
    async with desk() as page:
        called = asyncio.ensure_future(
            page.host.confirm(CallToolRequestParams.of("order", {"sku": "P-1", "n": 1}), asked)
        )
        question = await page.arrived(set())
        form = (await page.get(f"/review/{question.id}/edit")).text
        assert 'name="field-0"' in form
        assert 'name="field-1"' in form
        fields = {**page.about(question), "field-0": "P-2"}
        wrong = await page.post(f"/review/{question.id}/edit", {**fields, "field-1": "many"})
        assert wrong.status_code == 422
        assert "n: this does not fit. What fits: a whole number" in wrong.text
        assert (await page.post(f"/review/{question.id}/edit", {**fields, "field-1": "1"})).status_code == 200
        changed = await called
    assert isinstance(changed, ChangedCall)
    assert changed.params == CallToolRequestParams.of("order", {"sku": "P-2", "n": 1})
    assert changed.note.endswith(": sku.")
