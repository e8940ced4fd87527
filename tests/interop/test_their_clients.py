"""Other implementations as clients of our server, in both eras: over stdio, and as three replicas behind nginx.

Each client walks through each once; each test looks at one part of what it saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.our_server import server
from tests.interop.peers import SURVEYING_SERVER, Peers
from tests.support.three_replicas import three_replicas

WALKS = [
    ("python2", "legacy"),
    ("python2", "modern"),
    ("python2", "auto"),
    ("python1", "legacy"),
    ("ts1", "legacy"),
    ("ts2", "legacy"),
    ("ts2", "modern"),
    ("ts2", "auto"),
]
MODERN = {"modern", "auto"}
Record = dict[str, Any]


@pytest.fixture(scope="module", params=["stdio", "replicas"])
def place(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Say where our server is: the command line that starts it, or the address of nginx before three of it."""
    if request.param == "stdio":
        yield SURVEYING_SERVER
        return
    with three_replicas(SURVEYING_SERVER) as url:
        yield [url]


@pytest.fixture(scope="module", params=WALKS, ids="-".join)
def walk(request: pytest.FixtureRequest, peers: Peers, place: list[str]) -> tuple[str, str, Record]:
    """Let one client walk through our server, once for all tests."""
    name, era = request.param
    return name, era, peers.walk(name, era, place)


@pytest.fixture
def seen(walk: tuple[str, str, Record]) -> Record:
    """Give what the client saw."""
    return walk[2]


def text_of(result: Record) -> str:
    """Return the only text of a tool's result."""
    (block,) = result["content"]
    return block["text"]


def asked_about(seen: Record, topic: str) -> list[str]:
    """Return the questions about a topic that the client's model was asked."""
    asks = [ask["messages"][0]["content"] for ask in seen["asks"] if "messages" in ask]
    texts = [str(content["text"]) for content in asks if "text" in content]
    return [text for text in texts if text.startswith(topic)]


def test_the_revision_is_the_newest_of_the_era(walk: tuple[str, str, Record]):
    """A client that may choose gets the newest revision of the era it asked for."""
    _, era, seen = walk
    assert seen["version"] == ("2026-07-28" if era in MODERN else "2025-11-25")


def test_the_server_says_who_it_is(walk: tuple[str, str, Record]):
    """Name and version arrive, unless the client decided not to ask."""
    name, era, seen = walk
    if (name, era) == ("python2", "modern"):
        assert seen["tools"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "ours"
    else:
        assert (seen["server"]["name"], seen["server"]["version"]) == ("ours", "1.0")


def test_all_tools_are_listed(seen: Record):
    """The client's own validation accepts the list, and it is complete."""
    assert [tool["name"] for tool in seen["tools"]["tools"]] == [*(tool.name for tool in server.tools), "survey"]


def test_a_call_returns_its_text(seen: Record):
    """Text beyond ASCII arrives unharmed."""
    assert text_of(seen["echo"]) == "héllo ☃"


def test_structured_content_fits_the_output_schema(seen: Record):
    """The client checks it against the schema we listed."""
    assert seen["add"]["structuredContent"] == {"total": 42}


def test_a_failing_tool_is_a_result(seen: Record):
    """What a tool says went wrong is for the model, not an error of the protocol."""
    assert seen["fail"]["isError"] is True
    assert "on purpose" in text_of(seen["fail"])


def test_wrong_arguments_are_a_result_that_names_the_argument(seen: Record):
    """From 2025-11-25 the model is told, so that it can try again."""
    assert seen["wrong"]["isError"] is True
    assert "a" in text_of(seen["wrong"])


def test_an_unknown_tool_is_an_error_of_the_protocol(seen: Record):
    """It is refused as invalid params."""
    assert seen["unknown"]["error"]["code"] == -32602


def test_sampling_is_answered_by_the_clients_model(seen: Record):
    """The handler's plain await reaches the client's callback and goes on with its answer."""
    assert text_of(seen["describe"]) == "peer: answer to Describe sweater"


def test_a_sampling_request_arrives_as_it_was_made(seen: Record):
    """Nothing is lost or added on the way."""
    asked = next(ask for ask in seen["asks"] if "sweater" in str(ask))
    assert asked["messages"] == [{"role": "user", "content": {"type": "text", "text": "Describe sweater"}}]
    assert (asked["systemPrompt"], asked["maxTokens"], asked["temperature"]) == ("Be brief.", 50, 0.5)


def test_five_calls_that_sample_run_side_by_side(seen: Record):
    """Each gets its own answer."""
    assert [text_of(result) for result in seen["together"]] == ["peer: answer to Describe sweater"] * 5


def test_samples_of_a_gather_find_their_answers(seen: Record):
    """Two asks at once, each with its own."""
    assert text_of(seen["compare"]) == "answer to Describe hat | answer to Describe cap"


def test_a_chain_of_samples_runs_to_its_end(seen: Record):
    """Twelve in one call, more rounds than both SDKs allow unasked; the model is asked once for each, in order."""
    questions = asked_about(seen, "Cloth")
    assert text_of(seen["survey"]) == f"12 answers, the last: answer to {questions[-1]}"
    assert [question.split(",")[0] for question in questions] == [f"Cloth {number}" for number in range(1, 13)]


def test_a_chain_beyond_the_clients_limit_ends_with_its_error(walk: tuple[str, str, Record]):
    """Rounds are limited by the client, which says so; before there were rounds nothing was counted."""
    _, era, seen = walk
    questions = asked_about(seen, "Thread")
    if era in MODERN:
        assert "rounds" in seen["long_survey"]["error"]["message"]
        assert len(questions) == 15
    else:
        assert text_of(seen["long_survey"]) == f"18 answers, the last: answer to {questions[-1]}"
        assert len(questions) == 18


def test_sampling_with_a_tool_returns_the_tool_use(seen: Record):
    """One turn, with a tool definition of the author's."""
    assert text_of(seen["use_tool"]) == "tool_use:weather"


def test_the_tool_loop_runs_until_there_is_an_answer(seen: Record):
    """The client's model uses the tool, gets its result, and answers."""
    assert text_of(seen["forecast"]) == "answer to tool_result"


def test_elicitation_returns_what_the_user_filled_in(seen: Record):
    """The form arrives typed."""
    assert text_of(seen["book"]) == "Friday: 4 guests, window=True"


def test_roots_arrive(seen: Record):
    """The client's folders are known to the tool that asks."""
    assert text_of(seen["folders"]) == "project=file:///project"


def test_progress_arrives_in_order(seen: Record):
    """Every report, with total and message."""
    assert seen["progress"] == [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]


def test_log_messages_keep_to_the_level(seen: Record):
    """The client asked for info and above."""
    assert seen["logs"] == [["warning", "warning up"]]


def test_resources_and_templates_are_listed(seen: Record):
    """Each with its own request."""
    assert [one["uri"] for one in seen["resources"]["resources"]] == ["note://welcome"]
    assert [one["uriTemplate"] for one in seen["templates"]["resourceTemplates"]] == ["note://{title}"]


def test_resources_are_read(seen: Record):
    """A fixed one and one of a template."""
    assert seen["read"]["contents"][0]["text"] == "Welcome!"
    assert seen["read_template"]["contents"][0]["text"] == "Note tuesday"


def test_an_unknown_resource_is_an_error(walk: tuple[str, str, Record]):
    """With the code that the revision has for it; one client makes one of both."""
    name, era, seen = walk
    assert seen["read_unknown"]["error"]["code"] == (-32602 if era in MODERN or name == "ts2" else -32002)


def test_a_prompt_is_filled_in(seen: Record):
    """With the argument given and the default of the other."""
    assert seen["prompt"]["messages"][0]["content"]["text"] == "Review this python: pass"


def test_an_argument_is_completed(seen: Record):
    """With the values that fit what was typed."""
    assert seen["complete"]["completion"]["values"] == ["python", "perl"]
