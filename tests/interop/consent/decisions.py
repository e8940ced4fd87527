"""Checks of what a person can decide: ``L``, in LangChain's words approve, edit, reject and respond, and kept rules."""

from __future__ import annotations

from tests.interop.consent.callers import Outcome
from tests.interop.consent.person import settle, typed
from tests.interop.consent.world import HELD, Case, check


@check("L1")
async def approve(case: Case) -> None:
    """An approved call runs exactly as it was asked."""
    await case.call("order", amount=4)
    await case.approve()
    assert "order ran" in (await case.call("order", amount=4)).text
    assert case.ran() == [("order", {"sku": case.sku, "amount": 4})]


@check("L2")
async def edit(case: Case) -> None:
    """An edited call runs as edited, and the model is told."""
    await case.call("order", amount=9)
    await case.edit(amount=2)
    assert "A person changed the arguments" in (await case.call("order", amount=9)).text
    assert case.ran() == [("order", {"sku": case.sku, "amount": 2})]


@check("L3", callers="PT")
async def refuse_an_edit_that_does_not_fit(case: Case) -> None:
    """An edit that does not fit the tool's schema runs nothing, and the question still waits."""
    await case.call("order")
    question = await case.question()
    answer = await (await case.world.person()).decide(question.id, "edit", typed(amount="many"), at="/edit")
    assert answer.status_code >= 400
    assert await case.waiting()
    store = ("--store", case.world.store_file)
    named = f"{question.id}:{question.hash}"
    words = ("--arguments", '{"sku": 7}', *store)
    assert (await case.world.antiphon("review", "approve", named, *words))[0] != 0
    assert await case.waiting()
    assert case.ran() == []


@check("L4", callers="PT")
async def record_an_edit(case: Case) -> None:
    """The record has what was asked, what ran instead, and who changed it."""
    await case.call("order", amount=9)
    await case.edit(amount=3)
    await case.call("order", amount=9)
    records = await case.records()
    asked = {each.digest for each in records if each.step == "policy"}
    assert None not in asked
    [edited] = [each for each in records if each.step == "review" and each.outcome == "edit"]
    assert edited.by
    [ran] = [each.digest for each in records if each.outcome == "changed"]
    assert ran not in {None, *asked}


@check("L5")
async def edit_from_a_script(case: Case) -> None:
    """A script edits a call as well, by its id and the hash of what it has seen."""
    await case.call("order", amount=9)
    question = await case.question()
    arguments = f'{{"sku": "{case.sku}", "amount": 5}}'
    command = ("review", "approve", f"{question.id}:{question.hash}", "--arguments", arguments)
    code, said = await case.world.antiphon(*command, "--store", case.world.store_file)
    assert code == 0, said
    await case.call("order", amount=9)
    assert case.ran() == [("order", {"sku": case.sku, "amount": 5})]


@check("L6")
async def reject_with_a_reason(case: Case) -> None:
    """A rejected call runs nothing, and the model is told why if the person wants that."""
    await case.call("order")
    await case.reject(reason="Too many", tell="true")
    told = await case.call("order")
    assert (told.is_error, "Too many" in told.text, case.ran()) == (True, True, [])


@check("L7")
async def keep_the_reason_to_the_record(case: Case) -> None:
    """A reason that is not to be told stays in the record."""
    await case.call("order")
    await case.reject(reason="Suspicious caller")
    told = await case.call("order")
    assert told.is_error
    assert "Suspicious" not in str(told)
    assert "Suspicious caller" in {each.reason for each in await case.records()}


@check("L8")
async def respond(case: Case) -> None:
    """A person's words take the place of the call."""
    await case.call("order")
    await case.respond("Out of stock")
    told = await case.call("order")
    assert (told.text, told.is_error, case.ran()) == ("Out of stock", False, [])


@check("L9")
async def respond_under_a_schema(case: Case) -> None:
    """Where the tool declares an output schema the words are an error, since they do not fit it."""
    await case.call("count")
    await case.respond("Count it yourself")
    told = await case.call("count")
    assert (told.is_error, "Count it yourself" in told.text, case.ran()) == (True, True, [])


@check("L10", within=HELD)
async def take_a_permission_back(case: Case) -> None:
    """A permission can be taken back while it is held, and the person can then refuse."""
    calling = await case.hold("order")
    question, person = await case.question(), await case.world.person(undo=60)
    settle(await person.decide(question.id, "approve"))
    fields = (await person.look(f"/review/{question.id}")).form("/undo")
    settle(await person.send("/undo", fields))
    await case.reject()
    assert "refused" in Outcome(await calling).text
    assert case.ran() == []


@check("L11")
async def allow_calls_like_this(case: Case) -> None:
    """The rule is shown in words before it is kept; it covers calls like this one, and no others."""
    await case.call("order", amount=5)
    question, person = await case.question(), await case.world.person()
    at = "/like?arg-0=same&arg-1=most"
    page = (await person.browser.get(f"/review/{question.id}{at}")).text
    assert "amount is at most 5" in page
    assert "&lt;= 5</pre>" in page
    settle(await person.decide(question.id, "approve", at=at))
    await case.call("order", amount=5)
    assert "order ran" in (await case.call("order", amount=4)).text
    assert (await case.call("order", amount=6)).waits is not None
    assert len(case.ran()) == 2


@check("L12")
async def revoke_a_kept_rule(case: Case) -> None:
    """A kept rule is listed, and once it is revoked the next call is asked about."""
    await case.call("order", amount=5)
    question = await case.question()
    store = ("--store", case.world.store_file)
    condition = f'args.sku == "{case.sku}"'
    command = ("review", "approve", f"{question.id}:{question.hash}", "--scope", "always", "--when", condition)
    code, said = await case.world.antiphon(*command, "--unbounded", *store)
    assert code == 0, said
    await case.call("order", amount=5)
    assert "order ran" in (await case.call("order", amount=6)).text
    person = await case.world.person()
    listed = (await person.browser.get("/grants")).text
    assert case.sku in listed
    [grant] = [each.id for each in await case.world.store.grants() if case.sku in str(each)]
    fields = (await person.look("/grants")).form(f"/grants/{grant}/revoke")
    settle(await person.send(f"/grants/{grant}/revoke", fields))
    assert (await case.call("order", amount=7)).waits is not None


@check("L13")
async def bound_a_kept_rule(case: Case) -> None:
    """A kept rule with a bound ends with it."""
    await case.call("order", amount=1)
    question = await case.question()
    condition = f'args.sku == "{case.sku}"'
    command = ("review", "approve", f"{question.id}:{question.hash}", "--scope", "always", "--when", condition)
    code, said = await case.world.antiphon(*command, "--uses", "1", "--store", case.world.store_file)
    assert code == 0, said
    await case.call("order", amount=1)
    assert "order ran" in (await case.call("order", amount=2)).text
    assert (await case.call("order", amount=3)).waits is not None
    assert len(case.ran()) == 2


@check("L14", within=HELD)
async def confirm_once(case: Case) -> None:
    """A tool whose server wants to confirm by itself: who has approved the call here is not asked a second time."""
    calling = await case.hold("pay", amount=3)
    await case.approve()
    assert "pay ran" in Outcome(await calling).text
    assert len(case.ran()) == 1


@check("L15", within=HELD)
async def confirm_what_only_the_server_knows(case: Case) -> None:
    """A question that the server makes up is put to the person, and a no runs nothing."""
    calling = await case.hold("pay_more", amount=3)
    await case.approve()
    person = await case.world.person()
    form = await case.form()
    settle(await person.decide(form, "fill", typed(action="decline")))
    assert "did not confirm" in Outcome(await calling).text
    assert case.ran() == []
