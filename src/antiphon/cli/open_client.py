"""An open client from the options of a command.

Owns what all commands that talk to a server have in common. ``output.formats`` converts errors to messages.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

from antiphon.auth.client.oauth import OAuth
from antiphon.channel import Channel
from antiphon.cli.config_files import address_of, read_config, resolve_target
from antiphon.cli.host_options import Answering, choose_host
from antiphon.cli.options import AnswerOptions, Reach
from antiphon.cli.output.formats import FAILED, json_line, prefix_errors
from antiphon.cli.output.progress import LEGEND, Teller, format_message
from antiphon.client.client import Client
from antiphon.client.connection.targets import Target
from antiphon.errors import ConnectionClosed
from antiphon.host.checks.visible import make_inert
from antiphon.host.review.queue import Queue
from antiphon.transports.recording import Message, RecordingChannel
from antiphon.wire.common import GATEWAY, LEFT_OUT
from antiphon.wire.logging import LoggingMessageNotificationParams

_SILENT = (
    "It ended without output: a file that only makes a Server has to run it, with server.run() at its end; "
    "or name the object, as in FILE.py:server"
)
_SILENT_COMMAND = "It ended without output: is it a server that speaks over standard input and output?"


@asynccontextmanager
async def open_client(
    target: str,
    reach: Reach,
    answers: AnswerOptions | None = None,
    *,
    roots: Sequence[str] = (),
    model_api: bool = False,
    teller: Teller | None = None,
    seen: Callable[[Channel], object] | None = None,
) -> AsyncGenerator[Client]:
    """Connect to a server for as long as the context lasts, and end its process afterwards in any case.

    An error of this library that is raised in the context names the target.

    Args:
        answers: who answers what the server asks. By default asks are refused, although the capabilities are declared,
            because the lists of some servers depend on them; and no log messages are requested.
        model_api: also serve servers that call a vendor's API themselves.
        teller: shows messages; by default on standard error.
        seen: called with each channel that is opened.
    """
    told = teller or Teller(sys.stderr)
    host = choose_host(answers or AnswerOptions(deny=True), config=reach.config, model_api=model_api)
    if isinstance(host.reviewer, Queue):
        told.say("what the server asks waits in the store: decide it with antiphon review", "yellow")
    answering = Answering(host, told)
    servers = None if reach.config is not None and reach.config.suffix == ".toml" else reach.config
    if servers is not None:
        # Read it even if the target is not a name, so that a mistake in it is reported.
        read_config(servers)
    where = resolve_target(target, servers)
    client = Client(
        where,
        sampling=answering.sample,
        elicitation=answering.elicit,
        roots=roots or None,
        headers=reach.headers,
        auth=await _choose_auth(where, reach.headers),
        revision=reach.revision,
        timeout=reach.timeout,
        log_level=None if answers is None else "info",
        on_log=lambda params: told.say(format_log(params), "cyan"),
        errlog=(lambda text: told.say(f"stderr: {text}", "dim")) if reach.verbose else None,
        wrap=_make_wrapper(told if reach.messages else None, seen),
    )
    with prefix_errors(target):
        try:
            async with client:
                yield client
        except ConnectionClosed as error:
            if error.exit_code == 0 and not error.stderr:
                error.add_note(_SILENT if target.endswith(".py") else _SILENT_COMMAND)
            raise
        finally:
            told.clear()
            await host.aclose()


async def list_left_out(client: Client) -> list[str]:
    """Return the names of the servers that a gateway has left out of its lists; for another server there are none."""
    if client.server_info is None or client.server_info.name != GATEWAY:
        return []
    names = ((await client.list_tools()).meta or {}).get(LEFT_OUT)
    return [str(name) for name in cast("list[object]", names)] if isinstance(names, list) else []


async def name_left_out(client: Client) -> int:
    """Name the servers that are left out of a gateway's lists, on standard error. Returns the exit code."""
    if names := await list_left_out(client):
        print(
            make_inert(f"antiphon: left out, since they have not been listed yet: {', '.join(names)}"), file=sys.stderr
        )
        print("antiphon doctor NAME says why one of them cannot be used", file=sys.stderr)
    return FAILED if names else 0


async def _choose_auth(target: Target, headers: Mapping[str, str] | None) -> OAuth | None:
    address = address_of(target)
    if address is None:
        return None
    # Imported here, so that a local server does not load the HTTP library.
    from antiphon.cli.login_access import auth_for

    return await auth_for(address, headers)


def format_log(params: LoggingMessageNotificationParams) -> str:
    """Format a server's log message as one line."""
    text = params.data if isinstance(params.data, str) else json_line(params.data)
    return f"[{params.level}] {params.logger + ': ' if params.logger else ''}{text}"


def _make_wrapper(teller: Teller | None, seen: Callable[[Channel], object] | None) -> Callable[[Channel], Channel]:
    if teller is not None:
        teller.say(LEGEND, "dim")

    def heard(message: Message) -> None:
        if teller is not None:
            teller.say(format_message(message), "red" if message.kind == "error" else "dim")

    def wrap(channel: Channel) -> Channel:
        if seen is not None:
            seen(channel)
        return channel if teller is None else RecordingChannel(channel, heard)

    return wrap
