"""``antiphon model-api``: run any program whose calls to a vendor go to the host, with a token instead of a key."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Annotated

from antiphon.cli.host_options import choose_host
from antiphon.cli.options import ConfigFile, PageAnswers
from antiphon.errors import ConfigError
from antiphon.identity import launch_of
from antiphon.wire.common import Implementation
from antiphon.wire.origin import Equipment, Origin, describe_target, identify_target, list_coarser

_GRACE = 2.0
"""Seconds that the program has to end after it was told to."""


async def command(
    line: Annotated[list[str], "-- COMMAND...: The program and its arguments, after two dashes."],
    *,
    name: Annotated[str | None, "--as NAME: The program's name in reviews."] = None,
    answers: PageAnswers,
    config: ConfigFile = None,
) -> int:
    """Have a program's calls to OpenAI or Anthropic decided here.

    The program, unmodified, gets an address on this machine and a token instead of a key. Each of its calls goes
    through the rules, the review and the budgets of antiphon.toml. Keys of these vendors are taken out of its
    environment.

    The exit code is that of the program.
    """
    async with choose_host(answers, config=config, soon=True, model_api=True) as host:
        equipment = await host.equip(_Origins(line, name))
        assert equipment is not None
        try:
            return await _run_to_end(line, equipment)
        finally:
            equipment.ended()


class _Origins:
    """Makes the origin of each ask of a program. Its identity is computed from its command line."""

    def __init__(self, line: Sequence[str], name: str | None) -> None:
        self._launch = launch_of(line)
        self._server = None if name is None else Implementation(name=name, version="")
        self._numbers = count(1)

    def __call__(self) -> Origin:
        return Origin(
            id=f"api-{os.getpid()}-{next(self._numbers)}",
            identity=identify_target(self._launch),
            coarser=list_coarser(self._launch),
            pinned=self._launch.pinned,
            target=describe_target(self._launch),
            server=self._server,
        )


async def _run_to_end(line: Sequence[str], equipment: Equipment) -> int:
    """Run the program at this terminal; return its exit code."""
    env: Mapping[str, str] = equipment.environment(os.environ)
    try:
        # Its input and output are ours, so that it can be part of a pipe.
        process = await asyncio.create_subprocess_exec(*line, env=env)
    except OSError as error:
        raise ConfigError(f"{line[0]!r} cannot be started: {error.strerror or error}") from None
    equipment.started(process.pid)
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        # Ctrl-C reaches the program as well; if it ignores that, it is ended.
        await _end_process(process)
        raise
    # As shells say it: 128 and the number of the signal.
    return code if code >= 0 else 128 - code


async def _end_process(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM):
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await process.wait()
                return
