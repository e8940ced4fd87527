"""Envelopes: what counts as a message, and that no bytes whatever raise anything but the two errors meant for them."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from antiphon.errors import InvalidRequest, ParseError, PeerError
from antiphon.wire.common import PaginatedParams
from antiphon.wire.completion import CompleteRequestParams
from antiphon.wire.content import TextContent, UnknownContent
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import (
    MAX_DEPTH,
    MAX_LONE,
    ErrorObject,
    decode_envelope,
    decode_wire,
    encode_canonical,
    encode_value,
    read_data,
    split_batch,
    too_deep,
)
from antiphon.wire.prompts import GetPromptResult
from antiphon.wire.resources import Resource
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
SURROGATE = rb"\ud800"


def frame(**members):
    """Encode a request with members changed or added; ``...`` removes one."""
    return json.dumps({name: value for name, value in {**REQUEST, **members}.items() if value is not ...}).encode()


def nested(depth: int, pair: str = "[]") -> bytes:
    """Make JSON of exactly this depth."""
    opening, closing = ('{"a":', "}") if pair == "{}" else ("[", "]")
    return (opening * depth + "1" + closing * depth).encode()


def test_a_request_has_id_and_method():
    """Params stay undecoded, byte for byte."""
    envelope = decode_envelope(b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"b": 1.0,"a":[ ]}}')
    assert (envelope.id, envelope.method, envelope.error) == (7, "m", UNSET)
    assert bytes(envelope.params) == b'{"b": 1.0,"a":[ ]}'


def test_a_notification_has_no_id():
    """Absent is not null."""
    assert decode_envelope(frame(id=...)).id is UNSET
    assert decode_envelope(frame(id=None)).id is None


def test_params_may_be_left_out():
    """Then they are empty, and so is the result."""
    envelope = decode_envelope(frame())
    assert not envelope.params
    assert not envelope.result


def test_a_result():
    """A reply has an id and a result, undecoded, and no method."""
    envelope = decode_envelope(b'{"jsonrpc":"2.0","id":"a","result":{"x":[]}}')
    assert (envelope.id, envelope.method, bytes(envelope.result)) == ("a", UNSET, b'{"x":[]}')


@pytest.mark.parametrize("head", [b'"id":1,', b'"id":null,', b""])
def test_an_error(head):
    """An error reply may come with any id, null or none."""
    envelope = decode_envelope(b'{"jsonrpc":"2.0",' + head + b'"error":{"code":-1,"message":"m","data":{"r":1}}}')
    assert envelope.error == ErrorObject(code=-1, message="m", data={"r": 1})


def test_unknown_members_are_ignored():
    """A message may carry more than we know."""
    assert decode_envelope(frame(extra={"x": 1})).method == "ping"


def test_the_last_of_duplicate_keys_wins():
    """As in every common decoder: what one layer checked is what the next one sees."""
    assert decode_envelope(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b"}').id == 2


@pytest.mark.parametrize("number", [0, -1, 2**53, 2**63, 10**25])
def test_integer_ids(number):
    """Integers of any usual size come back as they were."""
    assert decode_envelope(frame(id=number)).id == number


@pytest.mark.parametrize("odd", [1.5, 1e300, True, [], {}, [1], 10**4000])
def test_odd_ids_are_invalid_requests(odd):
    """An id is a string or an integer: 2025-11-25 basic, requests."""
    with pytest.raises(InvalidRequest):
        decode_envelope(
            msgspec.json.encode({**REQUEST, "id": odd}) if odd != 10**4000 else b'{"id":' + b"9" * 4000 + b"}"
        )


@pytest.mark.parametrize("text", ["", "a", "1", "\u0000", "é", "\U0001f600", "x" * 1000])
def test_string_ids(text):
    """Any string is an id."""
    assert decode_envelope(frame(id=text)).id == text


@pytest.mark.parametrize(
    "data",
    [
        frame(result=None, error=None),
        frame(id=..., params={"requestId": 7}, result=None, error=None),
        frame(method=None, params=None, result={"x": 1}, error=None),
        frame(method=None, params=None, error={"code": 1, "message": "m"}),
    ],
)
def test_a_member_that_is_null_is_not_there(data):
    """Serializers of Java and C# write what a message does not have as null, unless they are told otherwise."""
    members = {name: value for name, value in msgspec.json.decode(data).items() if value is not None}
    read, plain = decode_envelope(data), decode_envelope(msgspec.json.encode(members))
    assert (read.id, read.method, read.error) == (plain.id, plain.method, plain.error)


INVALID = [
    b"null",
    b"1",
    b'"x"',
    b"[]",
    b"{}",
    b"[1]",
    frame(jsonrpc=...),
    frame(jsonrpc="1.0"),
    frame(jsonrpc=2.0),
    frame(method=1),
    frame(method=None),
    frame(method=..., error="no"),
    frame(method=..., error={"code": "1", "message": "m"}),
    frame(method=..., error={"code": 1}),
]


@pytest.mark.parametrize("data", INVALID)
def test_json_that_is_no_message_is_an_invalid_request(data):
    """-32600: well-formed, but no JSON-RPC 2.0."""
    with pytest.raises(InvalidRequest):
        decode_envelope(data)


MALFORMED = [
    b"",
    b" ",
    b"{",
    b"}",
    b'{"jsonrpc":"2.0"',
    b"hello",
    b"\xff\xfe",
    frame() + b"x",
    frame() + frame(),
    b'{"jsonrpc":"2.0","method":"\x00"}',
    b'{"jsonrpc":"2.0","method":"m","params":{"a":NaN}}',
    b'{"jsonrpc":"2.0","method":"m","params":{"a":01}}',
    b'{"jsonrpc":"2.0","method":"m","params":{a:1}}',
    b'{"jsonrpc":"2.0","method":"m","params":[1,}',
]


@pytest.mark.parametrize(
    ("data", "method", "params"),
    [
        (b"\xef\xbb\xbf" + frame(), "ping", b""),
        (b"\xef\xbb\xbf \r\n" + frame(), "ping", b""),
        (b'{"jsonrpc":"2.0","method":"\xff"}', "\ufffd", b""),
        (b'{"jsonrpc":"2.0","method":"' + SURROGATE + b'"}', "\ufffd", b""),
        (b'{"jsonrpc":"2.0","method":"m","params":["' + SURROGATE + b'"]}', "m", rb'["\ufffd"]'),
        (
            rb'{"jsonrpc":"2.0","method":"m","params":["\ud83d\ude00\ud83d\n\\ud83d"]}',
            "m",
            rb'["\ud83d\ude00\ufffd\n\\ud83d"]',
        ),
        (b'{"jsonrpc":"2.0","method":"m","params":["\xed\xa0\x80"]}', "m", '["\ufffd\ufffd\ufffd"]'.encode()),
        ('{"jsonrpc":"2.0","method":"m","params":["\U0001f600é"]}'.encode(), "m", '["\U0001f600é"]'.encode()),
    ],
)
def test_text_that_is_no_unicode_is_replaced(data, method, params):
    """One rule for requests, replies and notifications: U+FFFD, and no byte order mark."""
    envelope = decode_envelope(data)
    assert (envelope.method, bytes(envelope.params)) == (method, params)


def test_too_many_halves_of_pairs_are_no_json():
    """Replacing each takes time, so there is a bound."""
    halves = SURROGATE * (MAX_LONE + 1)
    with pytest.raises(ParseError):
        decode_envelope(b'{"jsonrpc":"2.0","method":"m","params":["' + halves + b'"]}')
    assert decode_envelope(b'{"jsonrpc":"2.0","method":"m","params":["' + halves[6:] + b'"]}').method == "m"


def test_halves_of_pairs_are_replaced_when_they_are_sent():
    """Two halves that belong together are one character."""
    assert msgspec.json.decode(encode_value({"a\udce9": ["\ud83d\ude00", ("\ude00",), Raw(b"[1]")]})) == {
        "a\ufffd": ["\U0001f600", ["\ufffd"], [1]]
    }
    assert encode_canonical({"b": "\ud83d", "a": 1}) == '{"a":1,"b":"\ufffd"}'.encode()


def test_subclasses_of_text_and_numbers_are_sent_as_what_they_are():
    """A page's title in BeautifulSoup is one, and so are numbers of numpy."""
    own = type("Title", (str,), {}), type("Real", (float,), {})
    assert encode_value(TextContent(text=own[0]("a"))) == b'{"type":"text","text":"a"}'
    assert encode_value({own[0]("n"): [own[1](0.5)]}) == b'{"n":[0.5]}'
    with pytest.raises(TypeError, match="object cannot be sent"):
        encode_value([object()])


@pytest.mark.parametrize(("id", "number"), [(b"3.0", 3), (b"-3.0", -3), (b"3e0", 3), (b"9007199254740992.0", 2**53)])
def test_a_whole_number_may_be_written_as_a_float(id, number):
    """JSON has one kind of number."""
    envelope = decode_envelope(b'{"jsonrpc":"2.0","id":' + id + b',"method":"ping"}')
    assert envelope.id == number
    assert type(envelope.id) is int


@pytest.mark.parametrize("data", MALFORMED)
def test_what_is_not_json_is_a_parse_error(data):
    """-32700, wherever in the frame the fault is."""
    with pytest.raises(ParseError):
        decode_envelope(data)


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_the_limit_of_depth_is_exact(pair):
    """128 levels are taken, the message's own among them, and 129 are not."""
    assert not too_deep(nested(MAX_DEPTH, pair))
    assert too_deep(nested(MAX_DEPTH + 1, pair))
    fits = b'{"jsonrpc":"2.0","method":"m","params":' + nested(MAX_DEPTH - 1, pair) + b"}"
    assert decode_envelope(fits).method == "m"
    with pytest.raises(InvalidRequest, match="128"):
        decode_envelope(fits.replace(b"1", b"[1]"))


def test_brackets_in_strings_are_no_depth():
    """Neither are escaped quotes an end."""
    text = json.dumps(["[" * 500, '"' + "{" * 500, "\\", "[" * 500]).encode()
    assert not too_deep(text)
    assert not too_deep(b"[" + text + b"]", 2)
    assert too_deep(b"[" + text + b"]", 1)


def test_breadth_is_no_depth():
    """Many brackets side by side are counted as deep as they are."""
    wide = b"[" + b",".join([nested(60)] * 50) + b"]"
    assert not too_deep(wide, 61)
    assert too_deep(wide, 60)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b'["' * 100_000, b'{"a":[' * 100_000])
def test_deep_and_never_closed(data):
    """What is never closed is refused without recursion."""
    with pytest.raises(InvalidRequest):
        decode_envelope(data)


@pytest.mark.parametrize("data", [b'"' + b'\\"[' * 50_000, b'"' + b"\\" * 100_001 + b"[" * 200, b'["\\' * 50_000])
def test_a_string_that_never_ends_costs_linear_time(data):
    """Every quote in it might be taken for the beginning of another string, to be searched to the end again."""
    with pytest.raises((InvalidRequest, ParseError)):
        decode_envelope(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def depth_of(value: object) -> int:
    """Count levels the slow and obvious way."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@settings(deadline=None)
@given(json_values, st.integers(0, 6), st.booleans())
def test_depth_is_what_it_is(value, limit, ascii_only):
    """For every document and limit the quick count agrees with walking it."""
    data = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert too_deep(data, limit) == (depth_of(value) > limit)


OUTCOMES = ("read", "parse error", "invalid request")


def outcome(read, data: bytes) -> str:
    """Say what comes of reading a frame; any other exception fails the test."""
    try:
        read(data)
    except ParseError:
        return "parse error"
    except InvalidRequest:
        return "invalid request"
    return "read"


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\ud801 null', max_size=200).map(str.encode))
def test_no_bytes_raise_anything_else(data):
    """Frames come from strangers: each is a message, or one of two errors; a batch or not."""
    assert outcome(decode_envelope, data) in OUTCOMES
    assert outcome(split_batch, data) in OUTCOMES


@settings(deadline=None)
@given(st.integers(0, 60), st.binary(min_size=1, max_size=3), st.booleans())
def test_no_mutation_raises_anything_else(place, noise, insert):
    """Damage to a good message gives a message or one of two errors."""
    good = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":["b",1,null]}}'
    damaged = good[:place] + noise + good[place if insert else place + len(noise) :]
    assert outcome(decode_envelope, good) == "read"
    assert outcome(decode_envelope, damaged)


@settings(deadline=None)
@given(json_values)
def test_any_params_pass_undecoded(value):
    """An envelope never looks inside."""
    data = json.dumps({**REQUEST, "params": value}).encode()
    assert json.loads(bytes(decode_envelope(data).params)) == value


@pytest.mark.parametrize("data", [frame(), b"", b" ", b"1", b'"["', b" {}"])
def test_a_frame_that_is_no_batch(data):
    """Only an array is one."""
    assert split_batch(data) is None


def test_a_batch_is_split():
    """Each member stays undecoded; an empty batch is a batch."""
    assert split_batch(b"[]") == []
    parts = split_batch(b' \r\n\t[{"a": 1},\n 2,"x"]')
    assert [bytes(part) for part in parts or ()] == [b'{"a": 1}', b"2", b'"x"']


@pytest.mark.parametrize("data", [b"[1", b"[1]]", b"[,]", b"[\xff]", b"[" * 100])
def test_a_batch_that_is_not_json(data):
    """-32700, as for any frame."""
    with pytest.raises(ParseError):
        split_batch(data)


def test_a_batch_may_be_too_deep():
    """The array counts as a level."""
    assert split_batch(b"[" + nested(MAX_DEPTH - 1) + b"]")
    with pytest.raises(InvalidRequest):
        split_batch(b"[" + nested(MAX_DEPTH) + b"]")


def test_foreign_content_is_written_as_it_came():
    """Whatever knows its wire form may be part of a message; anything else may not."""
    assert encode_value({"content": UnknownContent("x", {"y": 1})}) == b'{"content":{"type":"x","y":1}}'
    with pytest.raises(TypeError, match="object"):
        encode_value({"content": object()})


def test_an_error_without_data_has_no_data():
    """A default is left out."""
    assert encode_value(ErrorObject(code=1, message="m")) == b'{"code":1,"message":"m"}'


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_the_limit_of_depth_holds_for_large_frames(pair):
    """They are looked at in another way."""
    text = b'"' + b"x" * 20_000 + b'"'
    opening, closing = (b"[", b"]") if pair == "[]" else (b'{"a":', b"}")
    assert not too_deep(opening * MAX_DEPTH + text + closing * MAX_DEPTH)
    assert too_deep(opening * (MAX_DEPTH + 1) + text + closing * (MAX_DEPTH + 1))
    assert not too_deep(b"[" + b",".join([b"{}"] * 10_000) + b"]", 2)
    assert too_deep(b"[" + b",".join([b"{}"] * 10_000) + b"]", 1)
    assert not too_deep(b'["' + b"[{" * 10_000 + b'"]', 1)


ODD = {"type": "hologram", "depth": 3, "parts": [{"type": "text"}]}
HI = {"type": "text", "text": "hi"}

PLACES = [
    (CallToolResult, {"content": [HI, ODD, HI]}),
    (CallToolResult, {"content": [ODD, {**ODD, "type": "tool_use"}]}),
    (GetPromptResult, {"messages": [{"role": "user", "content": HI}, {"role": "user", "content": ODD}]}),
    (CreateMessageResult, {"role": "assistant", "model": "m", "content": ODD}),
    (CreateMessageResult, {"role": "assistant", "model": "m", "content": [HI, ODD]}),
    (CreateMessageRequestParams, {"maxTokens": 1, "messages": [{"role": "user", "content": [ODD]}]}),
    (
        CreateMessageRequestParams,
        {
            "maxTokens": 1,
            "messages": [
                {"role": "user", "content": [{"type": "tool_result", "toolUseId": "1", "content": [HI, ODD]}, ODD]},
                {"role": "user", "content": {"type": "tool_result", "toolUseId": "2", "content": [ODD]}},
            ],
        },
    ),
]


@pytest.mark.parametrize(("kind", "document"), PLACES)
def test_unknown_content_survives(kind, document):
    """It decodes wherever content may stand, and is written as it came."""
    value = decode_wire(json.dumps(document).encode(), kind)
    assert "UnknownContent(type='hologram'" in repr(value)
    assert json.loads(encode_value(value)) == document


def test_unknown_content_stands_among_the_known():
    """The other blocks are what they are."""
    result = decode_wire(json.dumps({"content": [HI, ODD]}).encode(), CallToolResult)
    assert result.content == [
        TextContent(text="hi"),
        UnknownContent("hologram", {name: value for name, value in ODD.items() if name != "type"}),
    ]
    assert result.text == "hi"


ERRORS = [
    (CallToolResult, {"content": [ODD, {"type": "text"}]}, r"`text` - at `\$\.content\[1\]`"),
    (CallToolResult, {"content": [{"type": 3}]}, "type"),
    (CallToolResult, {"content": [{}]}, "type"),
    (CallToolResult, {"content": ["hologram"]}, "content"),
    (CallToolResult, {"content": HI}, "content"),
    (CallToolResult, {"content": [ODD], "isError": "yes"}, r"\$\.isError"),
    (CompleteRequestParams, {"ref": {"type": "ref/hologram"}, "argument": {"name": "a", "value": "b"}}, "ref"),
    (ElicitResult, {"action": "maybe", "content": {"type": "hologram"}}, "action"),
    (CallToolResult, [], "object"),
]


@pytest.mark.parametrize(("kind", "document", "place"), ERRORS)
def test_what_does_not_fit_is_an_error(kind, document, place):
    """The error names the place, and never content that is merely unknown."""
    with pytest.raises(msgspec.ValidationError, match=place):
        decode_wire(json.dumps(document).encode(), kind)


def test_a_form_value_named_type_is_no_content():
    """Only where content may stand is anything taken for it."""
    document = {"action": "accept", "content": {"type": "hologram"}}
    assert decode_wire(json.dumps(document).encode(), ElicitResult).content == {"type": "hologram"}


def test_whole_numbers_may_be_written_with_a_point():
    """JSON Schema counts 1.0 as an integer, as some languages write it."""
    assert decode_wire(b'{"uri":"a:b","name":"b","size":3.0}', Resource).size == 3
    params = decode_wire(
        b'{"maxTokens":5.0,"messages":[{"role":"user","content":{"type":"x","n":1.0}}]}', CreateMessageRequestParams
    )
    assert params.max_tokens == 5
    assert params.messages[0].content == UnknownContent("x", {"n": 1.0})
    with pytest.raises(msgspec.ValidationError, match="size"):
        decode_wire(b'{"uri":"a:b","name":"b","size":3.5}', Resource)


@pytest.mark.parametrize(
    "data", [b'{"cursor":"\xff"}', b'{"cursor":1,"x":"\xff"}', b'{"cursor":"\\ud800"}', b"{", b"nope"]
)
def test_what_is_not_json_is_one_error(data):
    """An envelope leaves params undecoded, so faults inside of them are found here."""
    with pytest.raises(msgspec.DecodeError):
        decode_wire(data, PaginatedParams)


def test_arguments_are_left_alone():
    """Nothing in the arguments of a call is taken for content, or for a number to mend."""
    data = b'{"name":"t","arguments":{"content":[{"type":"hologram"}],"n":1.0}}'
    assert encode_value(decode_wire(data, CallToolRequestParams)) == data


def test_a_member_of_an_errors_data_is_read_whatever_that_is():
    """A peer may send anything there."""
    given = ({"reason": "user"}, {}, ["reason"], "reason", None)
    assert [read_data(PeerError("x", data=data), "reason") for data in given] == ["user", None, None, None, None]
