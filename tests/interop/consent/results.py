"""Checks of what tools bring back, of labels, of definitions and names, and of the record: ``S``."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.interop.consent.callers import Outcome
from tests.interop.consent.world import HELD, Case, check

RESULTS = """
[[policy.rules]]
effect = "allow"
when = 'annotations.readOnlyHint'
[[policy.results]]
effect = "mask"
found = ["secret", "hidden", "size"]
[[policy.results]]
effect = "ask"
found = ["instructions"]
[[policy.results]]
effect = "refuse"
found = ["leak"]
"""
FLOW = """
[policy]
default = "flow"
[[policy.rules]]
effect = "allow"
when = 'annotations.readOnlyHint'
[[policy.labels]]
name = "refund"
labels = ["outbound"]
"""
SECRET = "AKIAIOSFODNN7EXAMPLE"


@check("S1", policy=RESULTS)
async def mask_secrets_and_hidden_characters(case: Case) -> None:
    """Secrets and characters that cannot be seen are masked in a result, and the rest is left."""
    assert (await case.call("fetch", kind="secret")).text == "the key is [AWS access key]"
    assert (await case.call("fetch", kind="hidden")).text == "abc"
    assert (await case.call("fetch")).text == "an ordinary page"


@check("S2", policy=RESULTS)
async def mask_structured_content(case: Case) -> None:
    """So they are in structured content."""
    told = await case.call("fetch_fields")
    assert SECRET not in str(told.said)
    assert "AWS access key" in told.text


@check("S3", policy=RESULTS)
async def mask_errors(case: Case) -> None:
    """So they are in the text of an error."""
    told = await case.call("fetch", kind="error")
    assert told.is_error
    assert SECRET not in str(told.said)


@check("S4", policy=RESULTS)
async def mask_resources(case: Case) -> None:
    """So they are in a resource that the client reads."""
    told = await case.send("read", uri="shop://secret")
    assert SECRET not in str(told.said)
    assert "AWS access key" in told.text


@check("S5", policy=RESULTS)
async def cut_what_is_too_large(case: Case) -> None:
    """A result that is too large is cut."""
    told = await case.call("fetch", kind="large")
    assert 10_000 < len(told.text) < 30_000


@check("S6", policy=RESULTS, within=HELD)
async def ask_about_orders_to_the_model(case: Case) -> None:
    """A person sees a result with orders to the model first, and lets it pass or withholds it."""
    calling = await case.hold("fetch", kind="orders")
    question = await case.approve()
    assert question.item.result is not None
    assert "Ignore all previous" in Outcome(await calling).text
    calling = await case.hold("fetch", kind="orders")
    await case.reject()
    assert "withheld" in Outcome(await calling).text


@check("S7", policy=RESULTS)
async def refuse_an_address_that_leaks(case: Case) -> None:
    """A result with an address that takes data out is withheld."""
    told = await case.call("fetch", kind="leak")
    assert "withheld" in told.text
    assert "evil" not in told.text


@check("S8", another={"keep": 1, "within": HELD}, policy=RESULTS)
async def withhold_a_result_that_nobody_looked_at(case: Case) -> None:
    """Where nobody decides about a result in time, the model is told that the call has run, without the result."""
    gateway = await case.another()
    told = await case.call("fetch", kind="orders", at=gateway.url)
    assert "Ignore all previous" not in told.text
    assert "run" in told.text
    assert len(case.ran()) == 1


@check("S9", others=("flow",), policy=FLOW, within=HELD)
async def ask_where_three_labels_meet(case: Case) -> None:
    """One session has read what is private and what strangers wrote: before it sends, a person is asked."""
    who = "flow"
    for tool in ("look", "fetch"):
        assert not (await case.call(tool, who=who)).is_error
    calling = await case.hold("refund", who=who)
    question = await case.reject()
    assert question.item.risks[0].kind == "flow"
    assert "refused" in Outcome(await calling).text
    assert "look ran" in (await case.call("look", who=who)).text


@check("S10", others=("reader", "sender"), own=True, policy=FLOW, shops=("apart",), within=HELD)
async def keep_sessions_apart(case: Case) -> None:
    """What another principal's session has read is not this one's: with two of the three labels nobody is asked."""
    await case.call("fetch", who="reader")
    assert not (await case.call("look", who="sender")).is_error
    calling = await case.hold("refund", who="sender")
    question = await case.question()
    assert "flow" not in {risk.kind for risk in question.item.risks}
    await case.approve()
    assert "refund ran" in Outcome(await calling).text
    assert "refund ran" in (await case.call("refund", who="sender", amount=2)).text


@check("S11", callers="PTC", shops=("altered2",), alone=True, within=HELD)
async def ask_again_after_a_rug_pull(case: Case) -> None:
    """A tool that was always allowed is asked about once its server says something else of it, with the difference."""
    mark = case.world.root / "changed-altered2"
    mark.unlink(missing_ok=True)
    before = await case.own()
    calling = await case.hold("order", at=before.url)
    await case.decide("approve", {"scope": ["always"]})
    assert "order ran" in Outcome(await calling).text
    assert "order ran" in (await case.call("order", at=before.url, amount=2)).text
    mark.touch()
    after = await case.own()
    calling = await case.hold("order", at=after.url, amount=3)
    question = await case.question()
    page = await (await case.world.person()).browser.get(f"/review/{question.id}")
    assert "Order for everybody" in page.text
    await case.reject()
    assert "refused" in Outcome(await calling).text
    assert len(case.ran()) == 2


@check("S12", shops=("shop", "twin"))
async def keep_colliding_names_apart(case: Case) -> None:
    """Two servers have tools of the same names: none takes the place of the other's."""
    names = [each["name"] for each in (await case.send("tools")).result["tools"]]
    assert len(names) == len(set(names))
    assert {"shop__order", "twin__order"} <= set(names)
    assert (await case.call("twin__order")).waits is not None
    question = await case.question()
    assert question.item.origin.target.endswith("twin")


@check("S13", callers="PT")
async def tell_an_undeclared_argument(case: Case) -> None:
    """An argument that the tool does not declare is shown to the person, too."""
    await case.call("order", hidden_option="x7")
    question = await case.question()
    page = await (await case.world.person()).browser.get(f"/review/{question.id}")
    assert "hidden_option" in page.text
    assert "x7" in page.text


@check("S14", callers="PT")
async def keep_secrets_out_of_the_record(case: Case) -> None:
    """A secret in the arguments is masked in the record, also where content is kept."""
    await case.call("refund", to=SECRET)
    await case.reject()
    await case.call("refund", to=SECRET)
    kept = [each.content or "" for each in await case.records()]
    assert kept
    assert not any(SECRET in each for each in kept)


@check("S15", callers="PT")
async def verify_the_record(case: Case) -> None:
    """The record is whole, and one that was altered, or lost a line, is found out."""
    await case.call("order")
    await case.reject()
    await case.call("order")
    code, said = await case.world.antiphon("audit", "verify", "--store", case.world.store_file)
    assert code == 0, said
    changes = (
        "UPDATE audit SET body = replace(body, '\"at\":', '\"at\":1') WHERE seq = (SELECT max(seq) FROM audit)",
        "DELETE FROM audit WHERE seq = (SELECT max(seq) - 1 FROM audit)",
    )
    for number, change in enumerate(changes):
        copy = case.world.root / f"copy-{number}-{case.sku}.db"
        with closing(sqlite3.connect(case.world.store_file)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            target.execute(change)
            target.commit()
        code, said = await case.world.antiphon("audit", "verify", "--store", str(copy))
        assert code != 0, said


@check("S16", callers="PT")
async def show_who_asks(case: Case) -> None:
    """The page says which server and which principal the call is for."""
    await case.call("order", who="grace")
    question = await case.question()
    assert question.item.origin.principal is not None
    assert "sub:grace-" in question.item.origin.principal
    page = await (await case.world.person()).browser.get(f"/review/{question.id}")
    assert "shop.py" in page.text


@check("S17", policy='[[policy.rules]]\neffect = "allow"\n')
async def refuse_a_caller_without_a_token(case: Case) -> None:
    """Who has not signed in calls nothing, whatever the rules allow."""
    told = await case.send("call", token="forged", tool="order", arguments={"sku": case.sku})
    assert told.is_error
    assert case.ran() == []
