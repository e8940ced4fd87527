"""What is asked, and which answers are refused."""

from __future__ import annotations

import json

import pytest

from benchmarks.load.operations import Operation
from benchmarks.load.tally import WrongAnswer


def echoed(**changed: object) -> bytes:
    """Write the right answer to echo request 7, with members changed."""
    result = {"content": [{"type": "text", "text": "hello 7"}], "isError": False, "resultType": "complete"}
    reply = {"jsonrpc": "2.0", "id": 7, "result": result}
    for name, value in changed.items():
        (reply if name in reply else result)[name] = value
    return json.dumps(reply).encode()


def tool(name: str) -> dict[str, object]:
    """Write a tool."""
    return {"name": name, "description": "d", "inputSchema": {"type": "object"}}


def listed(names: list[str], **more: object) -> bytes:
    """Write a list of tools."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool(name) for name in names], **more}}).encode()


def judge(operation: Operation, data: bytes, number: int = 7) -> None:
    """Read and verify one reply."""
    operation.verify(number, number, operation.read(data))


def test_the_right_answer_is_taken():
    """At either era."""
    judge(Operation("echo", modern=True), echoed())
    judge(Operation("echo", modern=False), echoed(resultType=None))


@pytest.mark.parametrize(
    "changed",
    [
        {"id": 8},
        {"id": "7"},
        {"jsonrpc": "1.0"},
        {"isError": True},
        {"content": []},
        {"content": [{"type": "text", "text": "hello 8"}]},
        {"content": [{"type": "image", "text": "hello 7"}]},
        {"content": [{"type": "text", "text": "hello 7"}] * 2},
        {"resultType": "partial"},
        {"resultType": None},
        {"result": None},
        {"result": [1]},
    ],
)
def test_a_wrong_answer_is_refused(changed: dict[str, object]):
    """Another id, text, kind or number of blocks, an error, a result type of another kind."""
    with pytest.raises(WrongAnswer):
        judge(Operation("echo", modern=True), echoed(**changed))


def test_an_error_is_refused():
    """And shown."""
    data = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no such method"}}'
    with pytest.raises(WrongAnswer, match="no such method"):
        judge(Operation("echo", modern=False), data)


def test_what_is_no_message_is_refused():
    """A page of some proxy, say."""
    with pytest.raises(WrongAnswer):
        Operation("echo", modern=False).read(b"<html>")


@pytest.mark.parametrize(("kind", "text"), [("big", "x" * 9), ("blob", "9"), ("sample", "sampled hello 7")])
def test_each_kind_knows_its_text(kind: str, text: str):
    """One letter less is wrong."""
    operation = Operation(kind, modern=True, size=9)
    judge(operation, echoed(content=[{"type": "text", "text": text}]))
    with pytest.raises(WrongAnswer):
        judge(operation, echoed(content=[{"type": "text", "text": text[:-1]}]))


@pytest.mark.parametrize("text", ["x" * 4 + "y" + "x" * 4, "x" * 10, "x" * 8, "y" + "x" * 8, ""])
def test_a_long_text_is_compared_letter_by_letter(text: str):
    """Though it is not decoded where it is right."""
    operation = Operation("big", modern=True, size=9)
    with pytest.raises(WrongAnswer):
        judge(operation, echoed(content=[{"type": "text", "text": text}]))


def test_a_right_long_text_may_be_written_in_any_way():
    """Escapes are JSON too."""
    data = echoed(content=[{"type": "text", "text": "x" * 9}]).replace(b"xxx", b"\\u0078xx", 1)
    judge(Operation("big", modern=True, size=9), data)


NAMES = ["echo", "big", "blob", "sample", "tool_000"]


def test_a_list_has_every_tool():
    """Twice: the second is compared with the first."""
    operation = Operation("list", modern=False, tools=5)
    for _ in range(2):
        judge(operation, listed(NAMES), 1)


@pytest.mark.parametrize(
    "data",
    [
        listed(NAMES[1:]),
        listed([*NAMES[:-1], "tool_001"]),
        listed([*NAMES, "echo"]),
        listed(NAMES, nextCursor="more"),
        listed([]),
    ],
)
def test_a_list_with_other_tools_is_refused(data: bytes):
    """Also when the one before was right."""
    operation = Operation("list", modern=False, tools=5)
    judge(operation, listed(NAMES), 1)
    with pytest.raises(WrongAnswer):
        judge(operation, data, 1)


def test_a_sample_is_answered_for_its_call():
    """The prompt carries the number."""
    params = {"messages": [{"role": "user", "content": {"type": "text", "text": "hello 7"}}], "maxTokens": 64}
    ask = {"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": params}
    operation = Operation("sample", modern=False)
    number, answer = operation.reply(operation.read(json.dumps(ask).encode()))
    assert (number, json.loads(answer)["id"]) == (7, "s1")
    assert json.loads(answer)["result"]["content"]["text"] == "sampled hello 7"


def test_another_ask_is_refused():
    """Nothing here has roots."""
    operation = Operation("sample", modern=False)
    with pytest.raises(WrongAnswer):
        operation.reply(operation.read(b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}'))


def wanting(text: str) -> bytes:
    """Write a result that wants a sample."""
    params = {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 64}
    asks = {"k": {"method": "sampling/createMessage", "params": params}}
    result = {"resultType": "input_required", "inputRequests": asks, "requestState": "as it came"}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()


def test_a_call_is_sent_again_with_its_sample():
    """Under a new id, with the server's key and state."""
    operation = Operation("sample", modern=True)
    result = operation.read(wanting("hello 7")).result
    assert result is not None
    again = json.loads(operation.retry(9, 7, result))
    assert (again["id"], again["params"]["requestState"]) == (9, "as it came")
    assert again["params"]["inputResponses"]["k"]["content"]["text"] == "sampled hello 7"


def test_a_sample_for_another_call_is_refused():
    """Each round belongs to its call."""
    operation = Operation("sample", modern=True)
    result = operation.read(wanting("hello 8")).result
    assert result is not None
    with pytest.raises(WrongAnswer):
        operation.retry(9, 7, result)
