"""Progress: only for those who asked, only upwards, only until the end."""

from __future__ import annotations

import pytest

from antiphon.protocol.events import Ignored, Notified, Request
from antiphon.wire.content import TextContent
from antiphon.wire.revisions import LATEST_LEGACY, REVISIONS
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.tools import CallToolResult
from tests.support.pair import Pair, decoded, frame

SAMPLE = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="hi"))], max_tokens=5
)
DONE = CallToolResult(content=[])


@pytest.mark.requirement("progress.increase", "progress.active-token")
@pytest.mark.parametrize("revision", REVISIONS)
def test_progress_reaches_the_one_who_asked_and_only_grows(revision):
    """Values that do not increase are not sent; those that are arrive under the token of their request."""
    pair = Pair.opened(revision)
    outgoing, request = pair.call(wants_progress=True)
    seen = []
    for value in (1, 1, 0.5, 2, 2.5, 2.4, 3):
        data = pair.server.progress(request, value, 3, "on it")
        if data is not None:
            event = pair.to_client(data)
            assert isinstance(event, Notified)
            assert event.params.progress_token == outgoing.id
            seen.append(event.params.progress)
    assert seen == [1, 2, 2.5, 3]


@pytest.mark.requirement("progress.active-token")
def test_progress_nobody_asked_for_is_not_sent():
    """Without a token there is nobody to tell."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    assert pair.server.progress(request, 1, None, None) is None


@pytest.mark.requirement("progress.stops")
@pytest.mark.parametrize("revision", REVISIONS)
def test_progress_is_silent_after_the_end(revision):
    """Neither after the reply nor after a cancellation is anything sent."""
    pair = Pair.opened(revision)
    _, answered = pair.call(wants_progress=True)
    pair.reply(answered, DONE)
    outgoing, withdrawn = pair.call(wants_progress=True)
    pair.cancel(pair.client, outgoing)
    assert pair.server.progress(answered, 1, None, None) is None
    assert pair.server.progress(withdrawn, 1, None, None) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_progress_that_is_no_number_is_not_sent(value):
    """JSON has no such numbers; as a total they are left out."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call(wants_progress=True)
    assert pair.server.progress(request, value, 1, None) is None
    data = pair.server.progress(request, 1, value, None)
    assert "total" not in decoded(data)["params"]


@pytest.mark.requirement("progress.increase")
@pytest.mark.parametrize(("values", "kept"), [((1, 2, 2, 1, 3), [1, 2, 3]), ((0.1, 0.2, 0.15), [0.1, 0.2])])
def test_progress_that_does_not_increase_is_ignored_on_arrival(values, kept):
    """A peer that breaks the rule does not make our own callbacks go backwards."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, _request = pair.call(wants_progress=True)
    seen = []
    for value in values:
        params = {"progressToken": outgoing.id, "progress": value}
        event = pair.client.receive(frame(method="notifications/progress", params=params))
        if isinstance(event, Notified):
            seen.append(event.params.progress)
    assert seen == kept


@pytest.mark.requirement("progress.active-token", "progress.stops", "progress.track")
def test_progress_for_an_unknown_token_is_ignored():
    """A token never given, one of a request that asked for none, one of a request that has ended."""
    pair = Pair.opened(LATEST_LEGACY)
    silent, _ = pair.call()
    ended, request = pair.call(wants_progress=True)
    pair.reply(request, DONE)
    for token in ("nobody's", 999, silent.id, ended.id, str(silent.id)):
        params = {"progressToken": token, "progress": 1}
        assert isinstance(pair.client.receive(frame(method="notifications/progress", params=params)), Ignored)


@pytest.mark.requirement("progress.token-type", "progress.token-unique")
def test_the_progress_token_is_the_id_of_its_request():
    """So it is an integer, and unique among all that are live."""
    pair = Pair.opened(LATEST_LEGACY)
    for _ in range(3):
        outgoing, request = pair.call(wants_progress=True)
        assert request.meta is not None
        assert request.meta.progress_token == outgoing.id == request.id


@pytest.mark.parametrize("token", [0, "", "t", 10**30])
def test_any_token_of_the_peers_comes_back_as_it_was(token):
    """Strings and integers of any size are tokens, 0 and "" among them."""
    pair = Pair.opened(LATEST_LEGACY)
    params = {"name": "t", "_meta": {"progressToken": token}}
    request = pair.server.receive(frame(id=1, method="tools/call", params=params))
    assert isinstance(request, Request)
    assert decoded(pair.server.progress(request, 1, None, None))["params"]["progressToken"] == token


def test_progress_works_for_asks_as_well():
    """A client that takes its time may tell the server so, in the legacy revisions."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    ask, arrived = pair.ask(request, "sampling/createMessage", SAMPLE, wants_progress=True)
    data = pair.client.progress(arrived, 1, None, None)
    assert data is not None
    assert isinstance(pair.to_server(data), Notified)
    assert ask.progress == 1
