from __future__ import annotations

import io
from typing import Any

import pytest

from antiphon.cli.answering import Answering, choose_host
from antiphon.cli.telling import Teller
from antiphon.errors import ConfigError, Rejected
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

ORIGIN = Origin(id="1", identity="command:x", target="x")
PARAMS = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="Hello"))], max_tokens=50
)


def answering(**options: Any) -> tuple[Answering, io.StringIO]:
    """Make an answerer, and the stream it tells on."""
    stream = io.StringIO()
    return Answering(choose_host(**{"yes": False, "deny": False, **options}), Teller(stream)), stream


def form(**properties: object) -> ElicitRequestParams:
    """Make a form of which every field is required."""
    return ElicitRequestParams.form("Fill in", {"type": "object", "properties": properties, "required": [*properties]})


async def test_yes_answers_without_asking():
    """By the provider, and says who it was."""
    answerer, stream = answering(yes=True)
    assert (await answerer.sample(PARAMS, ORIGIN)).text == "[echo] Hello"
    assert stream.getvalue() == "sampling request answered by 'echo'\n"


async def test_deny_refuses():
    """By policy."""
    answerer, stream = answering(deny=True)
    with pytest.raises(Rejected):
        await answerer.sample(PARAMS, ORIGIN)
    assert stream.getvalue() == "sampling request refused (policy)\n"
    assert (await answerer.elicit(form(a={"type": "string"}), ORIGIN)).action == "decline"


async def test_without_a_terminal_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch):
    """Nobody can be asked."""
    monkeypatch.setattr("antiphon.host.terminal.reviewer.find_terminal", lambda: None)
    answerer, stream = answering()
    with pytest.raises(Rejected):
        await answerer.sample(PARAMS, ORIGIN)
    assert "--yes answers without asking" in stream.getvalue()


async def test_yes_sends_a_form_whose_defaults_suffice():
    """And no other, and visits no address."""
    answerer, _ = answering(yes=True)
    accepted = await answerer.elicit(form(a={"type": "string", "default": "x"}), ORIGIN)
    assert (accepted.action, accepted.content) == ("accept", {"a": "x"})
    assert (await answerer.elicit(form(a={"type": "string"}), ORIGIN)).action == "decline"
    assert (await answerer.elicit(ElicitRequestParams.visit("Go", "https://x.y"), ORIGIN)).action == "decline"


def test_yes_and_deny_contradict_each_other():
    """Whoever types both means neither."""
    with pytest.raises(ConfigError, match="contradict"):
        choose_host(yes=True, deny=True)
