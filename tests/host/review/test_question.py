"""What a question is, as it is read from its row."""

from __future__ import annotations

from antiphon.host import Approve, Deny, ElicitItem, digest
from antiphon.host.review.question import decision_of, question_of, record_withdrawal
from antiphon.host.review.review import hash_of
from antiphon.host.store.base import ReviewRow
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import encode_value
from tests.host.asks import origin, request

FORM = ElicitItem(origin=origin(), params=ElicitRequestParams.form("Sure?", {}))
APPROVAL = Approve(digest=digest(request()))


def row(**more) -> ReviewRow:
    """Make the row of a form."""
    usual = {"id": "1", "kind": "elicitation", "fingerprint": "f", "group": "host:call:0", "identity": "i"}
    return ReviewRow(
        **{**usual, "created": 1.0, "expires": None, "host": "host", "item": encode_value(FORM).decode(), **more}
    )


def test_a_question_that_is_decided_and_not_released_is_held():
    """With the moment at which the decision counts."""
    held = question_of(row(decision=encode_value(ElicitResult(action="cancel")).decode(), release=6.0))
    assert (held.state, held.release, held.item) == ("held", 6.0, FORM)
    assert question_of(row()).state == "pending"


def test_a_question_of_an_older_process_has_the_hash_of_what_it_shows():
    """Its row holds none."""
    assert question_of(row()).hash == hash_of(FORM)
    assert question_of(row(item=None)).hash == ""


def test_a_form_is_answered_or_denied():
    """Only a denial says what it is."""
    for decision in (ElicitResult(action="accept", content={"a": "b"}), Deny(reason="no")):
        assert decision_of(row(decision=encode_value(decision).decode())) == decision


def test_what_is_recorded_of_an_undo_names_the_process_that_asked():
    """Also where that has gone; of a question without content there is nothing to record."""
    taken = {"kind": "request", "decision": encode_value(APPROVAL).decode(), "by": "ada", "item": None}
    assert list(record_withdrawal(row(**taken), "bob", 2.0)) == []
    accepted = {"decision": encode_value(ElicitResult(action="accept")).decode(), "by": "ada"}
    for host in ("host", None):
        [record] = record_withdrawal(row(**accepted, host=host), None, 2.0)
        assert (record.host, record.outcome, record.by, record.method) == (
            "host",
            "undone:accept",
            "ada",
            "elicitation/create",
        )
