"""Replies: each request gets one, whatever its handler did."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidParams, NotInRevision, PeerError, Rejected, ResourceNotFound, UrlElicitationRequired
from antiphon.protocol.events import Request
from antiphon.wire.content import AudioContent
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY, REVISIONS
from antiphon.wire.tools import CallToolResult
from tests.support.pair import Pair

OLDEST = LEGACY[0]
DONE = CallToolResult(content=[])


@pytest.mark.requirement("base.reply-same-id")
def test_a_request_is_answered_once():
    """After the reply nothing more is written, be it a result or an error."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    pair.reply(request, DONE)
    assert pair.server.reply(request, DONE) is None
    assert pair.server.reply_error(request, InvalidParams("late")) is None


def test_an_old_handler_does_not_answer_for_a_new_request_under_its_id():
    """A cancelled request's id may come again; what its handler does at last is not the new request's."""
    pair = Pair.opened(LATEST)
    outgoing, first = pair.call()
    pair.cancel(pair.client, outgoing)
    second = pair.server.receive(outgoing.data)
    assert isinstance(second, Request)
    assert pair.server.reply_error(first, InvalidParams("cleanup")) is None
    assert pair.server.reply(first, DONE) is None
    assert pair.server.incoming == {outgoing.id: second}


def test_a_result_its_revision_cannot_carry_leaves_the_request_open():
    """The caller is told, and can still send an error as the reply."""
    pair = Pair.opened(OLDEST)
    _, request = pair.call()
    with pytest.raises(NotInRevision, match="Audio"):
        pair.server.reply(request, CallToolResult(content=[AudioContent(data="aGk=", mime_type="audio/wav")]))
    assert pair.reply(request, InvalidParams("no")).error is not None


def test_a_result_that_cannot_be_encoded_leaves_the_request_open():
    """So does one that holds what JSON cannot."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    with pytest.raises(TypeError):
        pair.server.reply(request, CallToolResult(content=[], structured_content={"a": object()}))
    assert pair.reply(request, DONE).error is None


@pytest.mark.parametrize(
    "error", [Rejected("no", data={"reason": object()}), InvalidParams("a set of lists", data=object())]
)
def test_an_error_that_cannot_be_encoded_becomes_an_internal_error(error: PeerError):
    """A handler's own data never costs the peer its reply."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    replied = pair.reply(request, error)
    assert replied.error is not None
    assert (replied.error.code, replied.error.message, replied.error.data) == (-32603, "Internal error", None)
    pair.check_empty()


@pytest.mark.parametrize("error", [ValueError("secret /etc/passwd"), KeyError("secret"), RecursionError("secret")])
def test_the_text_of_an_unexpected_exception_is_told_to_nobody(error):
    """Only what was meant for the peer reaches it."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    replied = pair.reply(request, error)
    assert replied.error is not None
    assert (replied.error.code, replied.error.message) == (-32603, "Internal error")


def test_an_error_a_peer_sent_us_is_not_passed_on():
    """What one side answered to an ask is not our own reply to its call."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    theirs = Rejected("no", data={"why": "private"})
    theirs.remote = True
    replied = pair.reply(request, theirs)
    assert replied.error is not None
    assert (replied.error.code, replied.error.data) == (-32603, None)


@pytest.mark.requirement("base.reserved-codes", "resources.not-found")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_missing_resource_has_the_code_of_its_revision(revision):
    """-32002 in the legacy revisions, -32602 since."""
    pair = Pair.opened(revision)
    _, request = pair.call("resources/read", METHODS["resources/read"].params(uri="file:///a"))
    replied = pair.reply(request, ResourceNotFound("Resource not found", data={"uri": "file:///a"}))
    assert replied.error is not None
    assert replied.error.code == (-32602 if revision.modern else -32002)
    assert replied.error.data == {"uri": "file:///a"}


@pytest.mark.requirement("base.reserved-codes", "elicitation.url-required")
@pytest.mark.parametrize("revision", REVISIONS)
def test_url_elicitation_required_is_sent_in_its_one_revision(revision):
    """-32042 exists at 2025-11-25 only."""
    pair = Pair.opened(revision)
    _, request = pair.call()
    replied = pair.reply(request, UrlElicitationRequired("first this", data={"elicitations": []}))
    assert replied.error is not None
    assert replied.error.code == (-32042 if revision.name == "2025-11-25" else -32603)


@pytest.mark.requirement("base.reserved-codes")
@pytest.mark.parametrize("code", [-32023, -32050, -32099, -32041])
def test_a_code_that_only_the_specification_may_define_is_not_sent(code):
    """A handler that makes one up gets an internal error."""
    pair = Pair.opened(LATEST)
    _, request = pair.call()
    replied = pair.reply(request, PeerError("made up", code=code))
    assert replied.error is not None
    assert replied.error.code == -32603


@pytest.mark.requirement("base.error-code-message")
@pytest.mark.parametrize("code", [1234, -1, -32000, 2**40])
def test_a_handlers_own_code_is_sent(code):
    """Any other integer."""
    pair = Pair.opened(LATEST)
    _, request = pair.call()
    replied = pair.reply(request, PeerError("own", code=code))
    assert replied.error is not None
    assert replied.error.code == code
