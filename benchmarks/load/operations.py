"""What one request of a workload is, and what its answer must be. Bytes in, bytes out: no sockets, no clocks."""

from __future__ import annotations

import secrets

from benchmarks.load.messages import (
    Incoming,
    InputRequest,
    Listing,
    Result,
    call,
    decode,
    decode_listing,
    decode_raw,
    list_tools,
    sample_reply,
    sample_retry,
)
from benchmarks.load.tally import WrongAnswer

__all__ = ["BASE_TOOLS", "MEBIBYTE", "Operation"]

BASE_TOOLS = 4
"""echo, big, blob and sample; every further tool of a list is an extra one."""
MEBIBYTE = 1 << 20


class Operation:
    """One kind of request.

    Args:
        kind: ``echo``, ``big`` (a result of ``size`` characters), ``blob`` (an argument of ``size`` characters),
            ``list`` or ``sample``.
        modern: Which era it is sent in.
        tools: How many tools the server has.
        size: Characters of ``big`` and ``blob``.
    """

    def __init__(self, kind: str, *, modern: bool, tools: int = BASE_TOOLS, size: int = MEBIBYTE) -> None:
        self.kind, self.modern, self.tools, self.size = kind, modern, tools, size
        self.name = kind.encode()
        self.method = b"tools/list" if kind == "list" else b"tools/call"
        self._letters = "x" * size if kind == "big" else ""
        self._string = f'"{self._letters}"'.encode()
        self._mark = secrets.token_hex(8)
        """Stands for the letters in a message that was shortened; nobody else knows it."""
        self._data = b'{"data":"%b"}' % (b"y" * size) if kind == "blob" else b""
        self._listed: bytes | None = None

    def request(self, number: int) -> bytes:
        """Write request ``number``, which is its id as well."""
        if self.kind == "list":
            return list_tools(number, modern=self.modern)
        return call(number, self.name, self._arguments(number), modern=self.modern)

    def _arguments(self, number: int) -> bytes:
        if self.kind == "big":
            return b'{"n":%d}' % self.size
        return self._data or b'{"text":"hello %d"}' % number

    def read(self, data: bytes) -> Incoming:
        """Decode a message.

        Raises:
            WrongAnswer: It is none; or it is a list of tools that is not the right one.
        """
        try:
            if self.kind == "list":
                return self._read_listing(data)
            return decode(self._shortened(data) if self.kind == "big" else data)
        except (ValueError, TypeError) as error:
            raise WrongAnswer(f"{error} in {data[:200]!r}") from error

    def _shortened(self, data: bytes) -> bytes:
        """Put a mark in the place of the letters, if exactly they are there.

        Comparing a mebibyte takes a tenth of the time of decoding it, and the load shall not be what bounds the row.
        """
        start = data.find(b'"x')
        if start < 0 or not data.startswith(self._string, start):
            return data
        return data[:start] + b'"' + self._mark.encode() + b'"' + data[start + len(self._string) :]

    def _read_listing(self, data: bytes) -> Incoming:
        """Look closely at the first list; any other must have the same bytes, or is looked at as closely."""
        reply = decode_raw(data)
        found = bytes(reply.result)
        if found and found != self._listed:
            self._check_listing(decode_listing(found))
            self._listed = found
        result = Result(result_type="complete") if found else None
        return Incoming(jsonrpc=reply.jsonrpc, id=reply.id, result=result, error=reply.error)

    def _check_listing(self, listing: Listing) -> None:
        names = {tool.name for tool in listing.tools}
        wanted = {"echo", "big", "blob", "sample", *(f"tool_{number:03d}" for number in range(self.tools - BASE_TOOLS))}
        if names != wanted or len(listing.tools) != self.tools or listing.next_cursor is not None:
            raise WrongAnswer(f"{len(listing.tools)} tools of {self.tools}, cursor {listing.next_cursor!r}")
        if self.modern and listing.result_type != "complete":
            raise WrongAnswer(f"resultType {listing.result_type!r}")
        if not all(tool.description and tool.input_schema.get("type") == "object" for tool in listing.tools):
            raise WrongAnswer("a tool without description or schema")

    def verify(self, id: int, number: int, message: Incoming) -> None:
        """Hold the reply to ``id`` against what request ``number`` must get.

        Raises:
            WrongAnswer: It differs.
        """
        if message.jsonrpc != "2.0" or message.id != id:
            raise WrongAnswer(f"jsonrpc {message.jsonrpc!r}, id {message.id!r} for {id}")
        result = message.result
        if result is None:
            raise WrongAnswer(f"error {bytes(message.error)[:200]!r}")
        if self.modern and result.result_type != "complete":
            raise WrongAnswer(f"resultType {result.result_type!r}")
        if self.kind != "list":
            self._check_text(result, number)

    def _check_text(self, result: Result, number: int) -> None:
        blocks = result.content or []
        wanted = (self.wanted(number), self._mark)
        if result.is_error or len(blocks) != 1 or blocks[0].type != "text" or blocks[0].text not in wanted:
            shown = blocks[0].text[:80] if blocks else None
            raise WrongAnswer(f"isError {result.is_error}, {len(blocks)} blocks, {shown!r}")

    def wanted(self, number: int) -> str:
        """Say what text request ``number`` must get."""
        match self.kind:
            case "echo":
                return f"hello {number}"
            case "sample":
                return f"sampled hello {number}"
            case "big":
                return self._letters
            case _:
                return str(self.size)

    def reply(self, ask: Incoming) -> tuple[int, bytes]:
        """Answer a sampling request of a legacy server: the number of the call it is for, and the answer.

        Raises:
            WrongAnswer: It asks for something else.
        """
        if ask.method != "sampling/createMessage" or ask.id is None or ask.params is None:
            raise WrongAnswer(f"unexpected {ask.method!r}")
        number = prompted(ask.params.messages[0].text if len(ask.params.messages) == 1 else "")
        return number, sample_reply(ask.id, b"sampled hello %d" % number)

    def retry(self, id: int, number: int, result: Result) -> bytes:
        """Write the call again, with the sample its modern server wants.

        Raises:
            WrongAnswer: It wants something else.
        """
        wanted = list((result.input_requests or {}).items())
        if len(wanted) != 1 or not self._asks_for(wanted[0][1], number):
            raise WrongAnswer(f"wants {wanted!r}"[:200])
        more = sample_retry(wanted[0][0], result.request_state, b"sampled hello %d" % number)
        return call(id, self.name, self._arguments(number), modern=True, more=more)

    def _asks_for(self, ask: InputRequest, number: int) -> bool:
        prompts = ask.params.messages
        return ask.method == "sampling/createMessage" and len(prompts) == 1 and prompted(prompts[0].text) == number


def prompted(text: str) -> int:
    """Read the number of the call out of its prompt."""
    word, _, number = text.partition(" ")
    if word != "hello" or not number.isdecimal():
        raise WrongAnswer(f"prompt {text[:80]!r}")
    return int(number)
