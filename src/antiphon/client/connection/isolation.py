"""A command that nobody trusts yet, started apart: in a home that is deleted afterwards, and without a network.

Only Linux lets every user take the network from a program, unless the system forbids it, as many containers do.
``network_holder`` is the program that does so. A home and a network do not close off files: a program can still change
what runs later, or speak to what listens at a socket with a path.
"""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import structs

from antiphon.client.connection.targets import Command
from antiphon.errors import ConfigError
from antiphon.identity import may_download
from antiphon.machine.files import name_errors
from antiphon.transports.stdio.client import child_environment
from antiphon.transports.stdio.reaper import GUARDIAN

ALONE = "none but its own loopback"
_HOMES = ("HOME", "USERPROFILE", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "APPDATA")
_PROGRAM = [sys.executable, "-IS", str(Path(__file__).with_name("network_holder.py"))]
_START_WAIT = 10.0  # seconds until a network is there; it takes some 50 ms
MISSED = "it did not start, and looked for something in vain: --network gives it the network"
"""What is said of a program that may only miss the network, and so is not known to be wrong."""
_NOT_STARTED = "antiphon: "  # what the program writes before the reason where it could not become the command
_PREFIX = "ANTIPHON_SET_"
"""How variables of the command are named until it runs: some, such as ``LD_PRELOAD``, would act on the program."""
_COUNTERS = {"OutNoRoutes", "AttemptFails", "NoPorts", "Ip6OutNoRoutes"}
"""The counters of Linux that grow when something in a network cannot reach what it looks for."""


class NetworkNamespace:
    """Holds a network without a way out until it is closed; raises ``ConfigError`` if there can be none."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise ConfigError("only Linux can do that")
        to, quiet = subprocess.PIPE, subprocess.DEVNULL
        with name_errors(_PROGRAM[0]):
            # In a session of its own: what interrupts us ends the servers first.
            self._holder = subprocess.Popen(
                _PROGRAM, stdin=to, stdout=to, stderr=quiet, bufsize=0, start_new_session=True
            )
        said, poll = b"it does not answer", select.poll()
        if (out := self._holder.stdout) is not None:
            poll.register(out, select.POLLIN)
            said = out.readline() if poll.poll(_START_WAIT * 1_000) else said
        if said != b"ready\n":
            self.close()
            raise ConfigError(said.decode(errors="replace").strip() or "the system forbids it")

    def move_command(self, command: Command) -> Command:
        """Return a command that runs this one in the network; where it cannot, ``explain_silence`` says why."""
        variables = {f"{_PREFIX}{name}": value for name, value in child_environment(command.env).items()}
        return structs.replace(command, argv=[*_PROGRAM, str(self._holder.pid), *command.argv], env=variables)

    def count_attempts(self) -> int:
        """Return how often something in it has looked in vain for another program."""
        files = [Path(f"/proc/{self._holder.pid}/net/{name}") for name in ("snmp", "snmp6")]
        try:
            lines, newer = [file.read_text(encoding="ascii").splitlines() for file in files]
        except OSError:
            # One of its programs has ended the holder.
            return 0
        pairs = [pair for names, values in zip(lines[::2], lines[1::2], strict=True)
                 for pair in zip(names.split(), values.split(), strict=True)]  # fmt: skip
        return sum(int(value) for name, value in [*pairs, *map(str.split, newer)] if name in _COUNTERS)

    def explain_silence(self, channel: object) -> str:
        """Return why a program in it said nothing: it could not run, or ``MISSED``; empty if neither is known."""
        said = str(getattr(channel, "stderr", ""))
        if said.startswith(_NOT_STARTED):
            return said.removeprefix(_NOT_STARTED)
        return MISSED if self.count_attempts() else ""

    def close(self) -> None:
        """Let go of the network; it is gone with the last program in it."""
        with self._holder:
            self._holder.kill()


@cache
def find_obstacle() -> str:
    """Return why no program can be started without a network here; empty if one can."""
    try:
        with closing(NetworkNamespace()) as made:
            tried = made.move_command(Command(argv=["true"]))
            env = child_environment(tried.env)
            done = subprocess.run(tried.argv, env=env, capture_output=True, check=False, timeout=_START_WAIT)
    except (ConfigError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.decode(errors="replace").strip() or "no program can start in it") if done.returncode else ""


def describe_network(argv: Sequence[str], *, is_allowed: bool) -> str:
    """Return which network a command is to have, and why; ``ALONE`` if it has none of this machine."""
    if is_allowed:
        return "that of this machine"
    if may_download(argv):
        return "that of this machine, since the command may download what it runs"
    obstacle = find_obstacle()
    return f"that of this machine, since there is no way to close it off here: {obstacle}" if obstacle else ALONE


@contextmanager
def isolate_command(target: Any, alone: NetworkNamespace | None = None) -> Generator[Any]:
    """Give a command a home for as long as the context lasts, and a network, which is closed then."""
    temporary = tempfile.TemporaryDirectory(prefix="antiphon-check-", ignore_cleanup_errors=True)
    with GUARDIAN.held(), temporary as home, ExitStack() as stack:
        if isinstance(target, Command):
            target = structs.replace(target, env={**dict.fromkeys(_HOMES, home), **(target.env or {})})
        if alone is not None:
            target = stack.enter_context(closing(alone)).move_command(target)
        yield target
