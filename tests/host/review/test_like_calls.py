"""Permission for calls like one that was seen: the rule, its words, and the calls that it covers."""

from __future__ import annotations

import pytest
from msgspec import structs

from antiphon.host import Approve, Host, MemoryStore, digest
from antiphon.host.checks.conditions import holds_for
from antiphon.host.review.decisions import list_rule_words, read_likenesses, write_condition
from antiphon.host.review.given_grants import Grant
from antiphon.host.review.question import Mismatch
from antiphon.host.review.review import UNBOUNDED, ToolItem
from antiphon.host.review.summary import load_texts
from antiphon.wire.origin import OriginCall
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import CHOICES, Person, origin
from tests.host.review.asking import Asking

TOOL = Tool(name="pay", input_schema={})
SEEN = {"to": 'a"b\u202e', "amount": 100, "tags": ["x"], "note": None}


def where():
    """Say who is called."""
    call = OriginCall(id="c", method="tools/call", name="pay", arguments={})
    return structs.replace(origin(), tool=TOOL, call=call)


def call(**arguments: object) -> CallToolRequestParams:
    """Make a call with the arguments that were seen, some of them changed."""
    return CallToolRequestParams.of("pay", {**SEEN, **arguments})


ITEM = ToolItem(origin=where(), params=call(), choices=CHOICES)


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        ({"amount": 99}, True),
        ({"note": "other"}, True),
        ({"amount": 101}, False),
        ({"amount": "99"}, False),
        ({"to": "other"}, False),
        ({"tags": ["x", "y"]}, False),
        ({"force": True}, False),
    ],
)
def test_the_rule_covers_what_its_words_say(changed: dict[str, object], holds: bool):
    """And no call with another argument."""
    when = write_condition(ITEM, read_likenesses(ITEM, {"amount": "most", "note": "any", "to": "most"}))
    assert holds_for(when, call(**changed), where()) is holds


def test_the_rule_is_shown_in_words():
    """With the values inert, in the person's language."""
    likenesses = read_likenesses(ITEM, {"amount": "most", "note": "any"})
    assert list(list_rule_words(ITEM, likenesses, load_texts("en"))) == [
        'to is "a\\"b⟦U+202E⟧"',
        "amount is at most 100",
        'tags is ["x"]',
        "note may be anything",
        "there is no other argument",
    ]


async def test_a_kept_rule_lets_like_calls_pass_and_no_others():
    """Also for the next process, and until it is revoked."""
    store = MemoryStore()
    when = write_condition(ITEM, read_likenesses(ITEM, {"amount": "most"}))
    person = Person(lambda item: Approve(digest=digest(item.params), scope="always", terms=UNBOUNDED, when=when))
    await Host(reviewer=person, store=store).confirm(call(), where())
    host = Host(reviewer=person, store=store)
    await host.confirm(call(amount=5), where())
    assert len(person.shown) == 1
    await host.confirm(call(amount=500), where())
    assert len(person.shown) == 2
    [given, *_] = await host.grants.all()
    assert given.grant.when == when
    await host.grants.revoke(given)


async def test_a_rule_must_cover_the_call_that_was_shown():
    """And is for more than one call; nothing else is kept."""
    made = Asking(MemoryStore())
    await made.waits(made.host.confirm(call(), where()))
    (question,) = await made.queue.pending()
    for scope, when, said in (
        ("always", "args.amount > 100", "does not meet the condition"),
        ("always", "no rule", "the condition cannot be used: not CEL"),
        ("always", "arg.amount == 100", r"the condition cannot be used: there is no arg; did you mean 'args'\?"),
        ("always", '!("pay" in calls)', "only a rule can use calls"),
        ("always", "links == [] && session == []", "only a rule can use links, session"),
        ("once", "args.amount == 100", "more than once"),
    ):
        decision = Approve(digest=digest(call()), scope=scope, when=when)
        with pytest.raises(Mismatch, match=said):
            await made.queue.decide(question.id, decision, hash=question.hash)


async def test_a_grant_whose_condition_depends_on_the_session_covers_nothing():
    """A grant is compared with the call alone, so "not after private data" would otherwise always hold."""
    host = Host(reviewer=Person(lambda item: Approve(digest=digest(item.params))))
    grant = Grant.give(call(), where(), "session")
    for when, covers in (('!("private" in session)', 0), ("args.amount == 100", 1)):
        given = await host.grants.add(structs.replace(grant, when=when))
        assert len(await host.grants.covering(call(), where())) == covers
        await host.grants.revoke(given)
