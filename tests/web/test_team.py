"""Deciding as a team: what each role may do, calls that rules leave to people, two approvals, and who is recorded."""

from __future__ import annotations

import asyncio
import json

import pytest

from antiphon.errors import Rejected
from antiphon.host import Host, Queue, Scripted
from antiphon.host.checks.people import Person
from antiphon.host.checks.policy_rules import Policy, Rule, decide
from antiphon.host.review.question import NotAllowed
from antiphon.host.review.review import Answer, Approve, Deny, digest
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import Person as Reviewer
from tests.host.asks import approve, origin
from tests.web.pages import routes_of
from tests.web.signing import Team, team

FINANCE = Rule(effect="ask", name="pay", to=("group:finance",))
TWO = Rule(effect="ask", name="pay", people=2)


def records(team: Team) -> list:
    """Return who is recorded of each decision, by name and as proven."""
    return [(each.by, each.people) for each in team.host.audit.records() if each.step == "review"]


async def test_a_decision_is_recorded_with_issuer_and_subject():
    """The name beside them is a claim; a name that was typed into the settings counts for nothing."""
    async with team() as made:
        ann = await made.browser("ann")
        await ann.post("/settings", {"language": "en", "theme": "auto", "name": "Somebody else"})
        question, task = await made.asked()
        assert (await ann.decide(question, "approve")).status_code == 200
        assert await task
        url = made.provider.url
        assert records(made) == [(f"Ann <{url} sub:ann>", (f"{url} sub:ann",))]
        assert f"Ann &lt;{url} sub:ann&gt;" in (await ann.client.get("/history/1")).text


@pytest.mark.parametrize(
    ("subject", "status"), [("cy", 403), ("ann", 200), ("dee", 200)], ids=["viewer", "reviewer", "admin"]
)
async def test_who_may_decide_one_call(subject: str, status: int):
    """A viewer sees the question without a button, and a POST is refused all the same."""
    async with team() as made:
        browser = await made.browser(subject)
        question, _ = await made.asked(sum=5)
        page = (await browser.client.get(f"/review/{question.id}")).text
        assert "pay" in page
        assert (f'action="/review/{question.id}/approve' in page) == (status == 200)
        assert (await browser.decide(question, "approve", digest(question.item.params))).status_code == status
        assert (await made.queue.get(question.id)).state == ("pending" if status == 403 else "decided")


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("approve", {"scope": "always"}),
        ("approve", {"scope": "session"}),
        ("deny", {"reach": "server"}),
        ("approve", {"of_labels": "1", "label": "private"}),
    ],
)
async def test_only_an_admin_decides_what_lasts(action: str, fields: dict):
    """A grant beyond the call, a block, the labels of a tool."""
    async with team() as made:
        ann, dee = await made.browser("ann"), await made.browser("dee")
        question, _ = await made.asked()
        refused = await ann.decide(question, action, **fields)
        assert (refused.status_code, "admin" in refused.text) == (403, True)
        assert (await made.queue.get(question.id)).state == "pending"
        page = (await ann.client.get(f"/review/{question.id}")).text
        assert 'value="always"' not in page
        assert 'name="reach" value="server"' not in page
        assert (await dee.decide(question, action, **fields)).status_code in (200, 409)


@pytest.mark.parametrize("path", ["/grants/x/revoke", "/unblock", "/servers/block", "/servers/switch"])
async def test_only_an_admin_changes_what_lasts(path: str):
    """By POST, whatever is drawn."""
    async with team() as made:
        for subject, status in (("cy", 403), ("ann", 403), ("dee", 404)):
            browser = await made.browser(subject)
            assert (await browser.post(path, {"identity": "x"})).status_code == status


async def test_no_address_is_made_that_would_open_nothing():
    """Whoever comes to the page signs in, so that an invitation would mislead."""
    async with team() as made:
        dee = await made.browser("dee")
        answer = await dee.post("/settings/invite")
        assert (answer.status_code, "token=" in answer.text) == (404, False)


async def test_every_action_has_a_role():
    """A viewer can change nothing but the settings of the own browser, and sign out."""
    async with team() as made:
        cy = await made.browser("cy")
        open_to_viewers = []
        for path, methods in routes_of(made.running.page):
            if "POST" in methods and path not in ("/open", "/sign-out"):
                where = path.replace("{id}", "x").replace("{action}", "approve").replace("{seq:int}", "1")
                if (await cy.post(where)).status_code != 403:
                    open_to_viewers.append(path)
        assert open_to_viewers == ["/settings"]


async def test_a_rule_leaves_a_call_to_a_group():
    """Others see whom it is left to, and neither approve nor deny; an admin is no exception."""
    async with team(FINANCE) as made:
        question, task = await made.asked()
        for subject in ("fay", "dee"):
            other = await made.browser(subject)
            assert "group:finance" in (await other.client.get(f"/review/{question.id}")).text
            for action in ("approve", "deny"):
                assert (await other.decide(question, action, digest(question.item.params))).status_code == 403
        assert (await (await made.browser("bob")).decide(question, "approve")).status_code == 200
        assert await task


async def test_rules_that_match_together_all_count():
    """The strictest number of people, and each of the lists."""
    rules = (Rule(effect="ask"), FINANCE, TWO, Rule(effect="ask", when="args.sum > 5", to=("ann@example.org",)))
    verdict = decide(Policy(rules=rules), CallToolRequestParams.of("pay", {"sum": 9}), origin())
    assert verdict.demands.people == 2
    assert set(verdict.demands.to) == {("group:finance",), ("ann@example.org",)}
    assert verdict.is_exact


async def test_two_people_have_to_approve_the_same():
    """One in two browsers is one; the first approval is shown; both are recorded."""
    async with team(TWO) as made:
        ann, again, bob = [await made.browser(subject) for subject in ("ann", "ann", "bob")]
        question, task = await made.asked(sum=5)
        first = await ann.decide(question, "approve")
        assert (first.status_code, "another person" in first.text) == (200, True)
        assert (await made.queue.get(question.id)).state == "pending"
        for browser in (ann, again):
            assert "You have approved this" in (await browser.client.get(f"/review/{question.id}")).text
            twice = await browser.decide(question, "approve", digest(question.item.params))
            assert (twice.status_code, "second person" in twice.text) == (403, True)
        assert "Approved by Ann" in (await bob.client.get(f"/review/{question.id}")).text
        assert (await bob.decide(question, "approve")).status_code == 200
        assert await task is True
        [(by, people)] = records(made)
        assert by.startswith("Ann <")
        assert [each.partition(" sub:")[2] for each in people] == ["ann", "bob"]


async def test_one_denial_denies():
    """Also after an approval, and by whoever approved before."""
    for subject in ("bob", "ann"):
        async with team(TWO) as made:
            ann, other = await made.browser("ann"), await made.browser(subject)
            question, task = await made.asked()
            await ann.decide(question, "approve")
            assert (await other.decide(question, "deny")).status_code == 200
            with pytest.raises(Rejected):
                await task


async def test_an_edit_voids_earlier_approvals():
    """It counts as the first approval of something else, which the next person sees and approves with it."""
    async with team(TWO) as made:
        ann, bob = await made.browser("ann"), await made.browser("bob")
        question, task = await made.asked(sum=5)
        await ann.decide(question, "approve")
        assert (await bob.decide(question, "edit", **{"field-0": "7"})).status_code == 200
        now = await made.queue.get(question.id)
        assert (now.state, len(now.approvals)) == ("pending", 1)
        page = (await ann.client.get(f"/review/{question.id}")).text
        assert "has changed the call" in page
        assert "&#34;sum&#34;: 7" in page
        assert (await ann.decide(question, "approve")).status_code == 200
        changed = await task
        assert json.loads(bytes(changed.params.arguments)) == {"sum": 7}
        assert len(records(made)[0][1]) == 2


async def test_what_was_shown_before_an_edit_approves_nothing():
    """The hash of what is shown covers earlier approvals."""
    async with team(TWO) as made:
        ann, bob, fay = [await made.browser(subject) for subject in ("ann", "bob", "fay")]
        question, _ = await made.asked(sum=5)
        await bob.decide(question, "edit", **{"field-0": "7"})
        stamp = {"shown": "1.x"}
        late = await ann.post(f"/review/{question.id}/approve", {"hash": question.hash, "digest": "x"} | stamp)
        assert late.status_code in (409, 422)
        before = await made.queue.get(question.id)
        await fay.decide(question, "edit", **{"field-0": "8"})
        shown = Approve(digest=before.approvals[0].decision.digest)
        with pytest.raises(ValueError, match="not what is kept"):
            await made.queue.decide(
                question.id, shown, hash=before.hash, by=Person(issuer="i", subject="s", role="admin")
            )
        assert (await made.queue.get(question.id)).state == "pending"


async def test_two_who_approve_at_once_are_two():
    """Of two first approvals that meet, none is lost: one of them is asked to look again."""
    async with team(TWO) as made:
        question, task = await made.asked()
        people = [Person(issuer="https://id", subject=each, role="reviewer") for each in ("a", "b")]
        shown = Approve(digest=digest(question.item.params))
        deciding = [made.queue.decide(question.id, shown, hash=question.hash, by=each) for each in people]
        done = await asyncio.gather(*deciding, return_exceptions=True)
        assert [type(each).__name__ for each in done].count("NoneType") == 1
        now = await made.queue.get(question.id)
        assert len(now.approvals) == 1
        second = people[1] if done[0] is None else people[0]
        await made.queue.decide(question.id, shown, hash=now.hash, by=second)
        assert await task


async def test_nobody_approves_their_own_request():
    """The caller of the gateway, with the same issuer and subject; denying it is fine."""
    async with team() as made:
        mine = origin(principal=f"{made.provider.url} sub:dee")
        question, task = await made.asked(who=mine)
        dee = await made.browser("dee")
        assert "your own request" in (await dee.client.get(f"/review/{question.id}")).text
        refused = await dee.decide(question, "approve", digest(question.item.params))
        assert (refused.status_code, "your own request" in refused.text) == (403, True)
        answered = await dee.decide(question, "answer", text="done")
        assert answered.status_code == 403
        assert (await dee.decide(question, "deny")).status_code == 200
        with pytest.raises(Rejected):
            await task


async def test_who_has_not_signed_in_is_no_way_around():
    """A terminal or a script may decide what no rule leaves to people, under a name that proves nothing."""
    for rule in (FINANCE, TWO):
        async with team(rule) as made:
            question, _ = await made.asked()
            for decision in (Approve(digest=digest(question.item.params)), Deny(), Answer(result="done")):
                with pytest.raises(NotAllowed, match="signed in"):
                    await made.queue.decide(question.id, decision, hash=question.hash, by="ann")
    async with team() as made:
        question, task = await made.asked()
        shown = Approve(digest=digest(question.item.params))
        await made.queue.decide(question.id, shown, hash=question.hash, by="Ann <https://id sub:ann>")
        assert await task
        assert records(made) == [("Ann (https://id sub:ann)", ())]


async def test_a_reviewer_that_proves_nobody_is_not_asked():
    """A terminal, or code, in place of the page; nor does a policy that allows without a person allow it."""
    reviewer = Reviewer(approve)
    host = Host(Scripted([]), reviewer=reviewer, policy=Policy(rules=(FINANCE,), headless="allow"))
    with pytest.raises(Rejected):
        await host.confirm(CallToolRequestParams.of("pay", {}), origin())
    assert not reviewer.shown
    assert decide(host.policy, CallToolRequestParams.of("pay", {}), origin(), headless=True).effect == "deny"


async def test_no_review_at_all_is_no_way_around():
    """Where everything else that a rule asks about is allowed, what it leaves to people is not."""
    reviewer = Reviewer(approve)
    host = Host(Scripted([]), reviewer=reviewer, review="never", policy=Policy(rules=(TWO, Rule(effect="ask"))))
    assert await host.confirm(CallToolRequestParams.of("read", {}), origin())
    with pytest.raises(Rejected):
        await host.confirm(CallToolRequestParams.of("pay", {}), origin("2"))
    assert not reviewer.shown


async def test_an_edit_does_not_evade_a_rule():
    """A call that would have needed two people after the edit does not run."""
    rule = Rule(effect="ask", name="pay", when="args.sum > 100", people=2)
    async with team(rule) as made:
        ann = await made.browser("ann")
        question, task = await made.asked(sum=5)
        assert (await ann.decide(question, "edit", **{"field-0": "5000"})).status_code == 200
        with pytest.raises(Rejected):
            await task


async def test_a_grant_covers_nothing_that_a_rule_leaves_to_people():
    """Nor is one offered there."""
    async with team(TWO) as made:
        dee = await made.browser("dee")
        question, _ = await made.asked()
        assert "grant" not in question.item.choices
        assert (await dee.decide(question, "approve", scope="always")).status_code == 409


async def test_undo_is_for_the_own_decision_or_an_admin():
    """Somebody else's stays."""
    async with team(undo=60.0) as made:
        ann, bob, dee = [await made.browser(subject) for subject in ("ann", "bob", "dee")]
        for who, status in ((bob, 403), (ann, 200), (dee, 200)):
            question, _ = await made.asked(sum=status, of=id(who))
            assert (await ann.decide(question, "approve")).status_code == 200
            held = await made.queue.get(question.id)
            assert held.state == "held"
            undone = await who.post("/undo", {"of": f"{question.id} {held.decided}"})
            assert undone.status_code == status, undone.text


async def test_a_rule_that_makes_no_sense_is_refused():
    """People are named as the roles name them, and only where a person is asked."""
    for wrong in ({"effect": "allow", "people": 2}, {"effect": "ask", "to": ("finance",)}):
        with pytest.raises(ValueError, match=r"ask|finance"):
            Rule(**wrong)


async def test_a_queue_of_a_program_counts_people_too():
    """Without the page: whoever puts a queue in front of people says who they are."""
    async with team(FINANCE) as made:
        question, task = await made.asked()
        shown = Approve(digest=digest(question.item.params))
        queue = Queue(made.running.page.site.store)
        for groups, role in ((("finance",), "viewer"), (("hr",), "admin")):
            person = Person(issuer="https://id", subject="p", groups=frozenset(groups), role=role)
            with pytest.raises(NotAllowed):
                await queue.decide(question.id, shown, hash=question.hash, by=person)
        person = Person(issuer="https://id", subject="p", groups=frozenset({"finance"}), role="reviewer")
        await queue.decide(question.id, shown, hash=question.hash, by=person)
        assert await task
