"""The runner itself: what it takes for the same, and what it says when it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.channel import Frame
from antiphon.transports.queued import memory_pair
from tests.scenarios.runner import LEFT_OUT, SCRIPTS, Line, Mismatch, Player, fit_for, line_id, matches, read_script


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": "<any>"}, {"a": None}),
        ({"a": "<string>", "b": "<integer>"}, {"a": "x", "b": 3}),
        ({"a": 1, "<rest>": "<any>"}, {"a": 1, "b": 2}),
        ([1, "<rest>"], [1, 2, 3]),
        ({"<=key>": {"m": 1}}, {"k17": {"m": 1}}),
    ],
)
def test_what_is_taken_for_the_same(expected: Any, actual: Any):
    """Wildcards stand for values, further members and further items."""
    assert matches(expected, actual, {})


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "<rest>": "<any>"}, {"b": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": "<string>"}, {"a": 1}),
        ([1], [1, 2]),
        ([1, 2, "<rest>"], [1]),
        ({"<=key>": {"m": 1}}, {"k17": {"m": 2}}),
        ({"id": "<unheard>"}, {"id": "x"}),
    ],
)
def test_what_is_not(expected: Any, actual: Any):
    """Everything that is not a wildcard is exact."""
    assert not matches(expected, actual, {})


def test_a_name_stands_for_what_was_remembered():
    """A value or a key that was remembered is expected again."""
    memory: dict[str, Any] = {}
    assert matches({"id": "<=ask>", "keys": {"<=key>": 1}}, {"id": 5, "keys": {"k": 1}}, memory)
    assert matches({"id": "<ask>", "keys": {"<key>": 2}}, {"id": 5, "keys": {"k": 2}}, memory)
    assert not matches({"id": "<ask>"}, {"id": 6}, memory)


async def test_a_script_is_played_and_compared():
    """What the client sends goes out with names filled in; what comes back is compared."""
    left, right = memory_pair()
    right.send(Frame(b'{"id":41,"method":"roots/list"}'))
    await Player(left).play(
        [
            Line(place="1", side="server", frame={"id": "<=ask>", "method": "roots/list"}),
            Line(place="2", side="client", frame={"id": "<ask>", "result": {}}),
        ]
    )
    (answer,) = await right.receive()
    assert isinstance(answer, bytes)
    assert json.loads(answer) == {"id": 41, "result": {}}


async def test_a_difference_names_the_line():
    """A mismatch says where the script stands, what was expected and what came."""
    left, right = memory_pair()
    right.send(Frame(b'{"id":1,"result":{"a":2}}'))
    with pytest.raises(Mismatch, match=r"walk:9\nexpected .*\"a\": 1.*\n +got .*\"a\": 2"):
        await Player(left).play([Line(place="walk:9", side="server", frame={"id": 1, "result": {"a": 1}})])


async def test_lines_marked_so_may_come_in_any_order():
    """Replies to calls that run side by side have no order."""
    left, right = memory_pair()
    right.send(Frame(b'{"id":2}'))
    right.send(Frame(b'{"id":1}'))
    lines = [Line(place=str(id), side="server", frame={"id": id}, any_order=True) for id in (1, 2)]
    await Player(left).play(lines)


def test_there_is_a_script_for_every_revision():
    """Five revisions, five scripts, and every line of them can be read."""
    assert SCRIPTS == ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert all(line.side in ("client", "server") for name in SCRIPTS for line in read_script(name))


@pytest.mark.parametrize("transport", LEFT_OUT)
def test_what_a_transport_leaves_out_is_in_the_scripts(transport: str):
    """Each with a reason; an entry that no line answers to is stale."""
    lines = [line for name in SCRIPTS for line in read_script(name)]
    assert set(LEFT_OUT[transport]) <= {line.section for line in lines} | {line_id(line) for line in lines}
    assert all(LEFT_OUT[transport].values())
    assert 0 < len(fit_for(transport, lines)) < len(lines)


def test_a_transport_without_limits_carries_every_line():
    """Memory, stdio and WebSocket."""
    lines = read_script("2026-07-28")
    assert fit_for("websocket", lines) == lines
