"""What a capability permits, in both directions."""

from __future__ import annotations

import pytest

from antiphon.protocol.server_offer import declares_capability, list_servable, may_include_context, missing_for_ask
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.lifecycle import ListChangedCapability, ResourcesCapability, ServerCapabilities
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage, ToolChoice
from antiphon.wire.tools import Tool

MESSAGES = [SamplingMessage(role="user", content=TextContent(text="hi"))]
SAMPLE = CreateMessageRequestParams(messages=MESSAGES, max_tokens=5)
WITH_TOOLS = CreateMessageRequestParams(
    messages=MESSAGES, max_tokens=5, tools=[Tool(name="t", input_schema={"type": "object"})]
)
NO_TOOLS = CreateMessageRequestParams(messages=MESSAGES, max_tokens=5, tools=[])
WITH_CHOICE = CreateMessageRequestParams(messages=MESSAGES, max_tokens=5, tool_choice=ToolChoice(mode="none"))
FORM = ElicitRequestParams(message="?", requested_schema={"type": "object", "properties": {}})
URL = ElicitRequestParams(message="?", mode="url", url="https://example.org", elicitation_id="1")

NEEDS_SAMPLING = ClientCapabilities(sampling=SamplingCapability())
NEEDS_TOOLS = ClientCapabilities(sampling=SamplingCapability(tools={}))
NEEDS_FORM = ClientCapabilities(elicitation=ElicitationCapability(form={}))
NEEDS_URL = ClientCapabilities(elicitation=ElicitationCapability(url={}))
NOTHING = ClientCapabilities()


@pytest.mark.parametrize(
    ("capabilities", "path", "declared"),
    [
        (None, "tools", False),
        (ServerCapabilities(), "tools", False),
        (ServerCapabilities(tools=ListChangedCapability()), "tools", True),
        (ServerCapabilities(tools=ListChangedCapability()), "tools.list_changed", False),
        (ServerCapabilities(resources=ResourcesCapability(subscribe=False)), "resources.subscribe", False),
        (ServerCapabilities(resources=ResourcesCapability(subscribe=True)), "resources.subscribe", True),
        (ServerCapabilities(logging={}), "logging", True),
        (ServerCapabilities(), "no.such.thing", False),
    ],
)
def test_a_capability_is_declared_when_it_is_there_and_not_false(capabilities, path, declared):
    """However empty."""
    assert declares_capability(capabilities, path) is declared


@pytest.mark.requirement(
    "sampling.declared", "sampling.tools", "elicitation.mode", "elicitation.empty", "roots.declared"
)
@pytest.mark.parametrize(
    ("method", "params", "declared", "missing"),
    [
        ("sampling/createMessage", SAMPLE, None, NEEDS_SAMPLING),
        ("sampling/createMessage", SAMPLE, NOTHING, NEEDS_SAMPLING),
        ("sampling/createMessage", SAMPLE, NEEDS_SAMPLING, None),
        ("sampling/createMessage", WITH_TOOLS, NOTHING, NEEDS_TOOLS),
        ("sampling/createMessage", WITH_TOOLS, NEEDS_SAMPLING, NEEDS_TOOLS),
        ("sampling/createMessage", WITH_CHOICE, NEEDS_SAMPLING, NEEDS_TOOLS),
        ("sampling/createMessage", NO_TOOLS, NEEDS_SAMPLING, NEEDS_TOOLS),
        ("sampling/createMessage", WITH_TOOLS, NEEDS_TOOLS, None),
        ("elicitation/create", FORM, NOTHING, NEEDS_FORM),
        ("elicitation/create", FORM, ClientCapabilities(elicitation=ElicitationCapability()), None),
        ("elicitation/create", FORM, NEEDS_FORM, None),
        ("elicitation/create", FORM, NEEDS_URL, NEEDS_FORM),
        ("elicitation/create", URL, NOTHING, NEEDS_URL),
        ("elicitation/create", URL, ClientCapabilities(elicitation=ElicitationCapability()), NEEDS_URL),
        ("elicitation/create", URL, NEEDS_FORM, NEEDS_URL),
        ("elicitation/create", URL, NEEDS_URL, None),
        ("roots/list", None, NOTHING, ClientCapabilities(roots=RootsCapability())),
        ("roots/list", None, ClientCapabilities(roots=RootsCapability()), None),
        ("ping", None, None, None),
    ],
)
def test_an_ask_needs_what_it_asks_for(method, params, declared, missing):
    """What is missing has the shape of ``requiredCapabilities``."""
    assert missing_for_ask(METHODS[method], params, declared) == missing


@pytest.mark.requirement("lifecycle.negotiated")
def test_a_server_serves_what_it_declares_and_no_more():
    """What always belongs to a revision, and the methods of each capability."""
    bare = list_servable(ServerCapabilities(), LATEST_LEGACY)
    assert bare == {"initialize", "ping"}
    assert list_servable(ServerCapabilities(), LATEST) == {"server/discover", "subscriptions/listen"}
    with_tools = list_servable(ServerCapabilities(tools=ListChangedCapability()), LATEST_LEGACY)
    assert with_tools - bare == {"tools/list", "tools/call"}
    unsubscribed = list_servable(ServerCapabilities(resources=ResourcesCapability()), LATEST_LEGACY)
    assert unsubscribed - bare == {"resources/list", "resources/templates/list", "resources/read"}


def test_completion_is_older_than_its_capability():
    """The first revision has the method and no way to declare it."""
    assert "completion/complete" in list_servable(ServerCapabilities(), LEGACY[0])
    assert "completion/complete" not in list_servable(ServerCapabilities(), LEGACY[1])


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "sampling/createMessage"]
)
def test_what_the_modern_revision_dropped_is_not_served(method):
    """Whatever the server declares."""
    everything = ServerCapabilities(
        tools=ListChangedCapability(), resources=ResourcesCapability(subscribe=True), logging={}
    )
    assert method not in list_servable(everything, LATEST)


@pytest.mark.requirement("sampling.context")
@pytest.mark.parametrize(
    ("revision", "declared", "may"),
    [
        (LEGACY[0], SamplingCapability(), True),
        (LEGACY[-2], SamplingCapability(), True),
        (LATEST_LEGACY, SamplingCapability(), False),
        (LATEST_LEGACY, SamplingCapability(context={}), True),
        (LATEST, None, False),
        (LATEST, SamplingCapability(context={}), True),
    ],
)
def test_context_is_declared_apart_since_2025_11_25(revision, declared, may):
    """Before, whoever samples may be asked for context."""
    assert may_include_context(revision, ClientCapabilities(sampling=declared)) is may
