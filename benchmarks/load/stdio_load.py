"""A caller over stdio: so many requests in flight on one pipe, a new one for each answer that was checked."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.load.operations import Operation
from benchmarks.load.stdio import Pipes
from benchmarks.load.tally import Tally, WrongAnswer

__all__ = ["StdioCaller"]


class StdioCaller:
    """Keep ``depth`` requests in flight."""

    def __init__(self, tally: Tally, operation: Operation, pipes: Pipes, depth: int, numbers: Iterator[int]) -> None:
        self._tally, self._operation, self._pipes, self._depth = tally, operation, pipes, depth
        self._numbers = numbers
        self._open: dict[int, tuple[int, float]] = {}
        """The id of each request in flight: its number, and when it began."""

    @property
    def alive(self) -> bool:
        """Whether answers are missing, and may still come."""
        return bool(self._open) and not self._pipes.ended

    async def open(self) -> None:
        """Listen."""
        self._pipes.on_lines = self._lines
        self._pipes.on_end = lambda: self._tally.wrong("the server ended")

    def go(self) -> None:
        """Send the first requests."""
        self._pipes.write(b"".join([self._next() for _ in range(self._depth)]))

    def _next(self) -> bytes:
        number = next(self._numbers)
        self._open[number] = number, time.perf_counter()
        return self._operation.request(number) + b"\n"

    def _lines(self, lines: list[bytes]) -> None:
        """Check what came; write all that follows from it at once."""
        out: list[bytes] = []
        for line in lines:
            if not line:
                continue
            try:
                self._take(line, out)
            except WrongAnswer as error:
                self._tally.wrong(error)
                if not self._tally.stopping:
                    out.append(self._next())
        if out:
            self._pipes.write(b"".join(out))

    def _take(self, line: bytes, out: list[bytes]) -> None:
        message = self._operation.read(line)
        if message.method is not None:
            number, answer = self._operation.reply(message)
            if number not in self._open:
                raise WrongAnswer(f"prompt of {number}, which is not in flight")
            out.append(answer + b"\n")
            return
        if not isinstance(message.id, int) or (opened := self._open.pop(message.id, None)) is None:
            raise WrongAnswer(f"id {message.id!r} is not in flight")
        number, began = opened
        if message.result is not None and message.result.result_type == "input_required":
            again = next(self._numbers)
            self._open[again] = opened
            out.append(self._operation.retry(again, number, message.result) + b"\n")
            return
        self._operation.verify(message.id, number, message)
        self._tally.right(began)
        if not self._tally.stopping:
            out.append(self._next())

    async def close(self) -> None:
        """Listen no longer."""
        self._pipes.on_lines, self._pipes.on_end = (lambda _lines: None), (lambda: None)
