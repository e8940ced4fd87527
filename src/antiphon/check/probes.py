"""What is tried on an open session, over any transport: requests, errors, ids, sizes, and all that was declared.

Each probe sends little, and nothing that calls a tool, reads a resource that exists, or changes anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from antiphon.check.http_peer import HttpPeer
from antiphon.check.message_rules import is_error
from antiphon.check.peer import ChannelPeer, Json, RawPeer

NOTHING = "antiphon-check-nothing"
"""The name of what no server has."""
ODD_ID = 'id "\u2028\U0001f426\\ \u0000é'
"""An id of signs that are escaped, that end a line elsewhere, and that take one to four bytes."""
LARGE = 1024 * 1024
"""Characters of the large request: more than any pipe holds, and less than every server takes."""
AT_ONCE = 20
QUIET = 0.3
"""Seconds in which a reply to a notification would have come: replies to requests take less here."""


async def try_ping(peer: RawPeer) -> None:
    """Look whether a ping is answered with an empty result."""
    if peer.revision.modern:
        return
    reply = await peer.ask("ping")
    if reply is None:
        return
    result = reply.get("result")
    if not isinstance(result, dict):
        peer.report("ping.answer", "ping", reply)
    elif set(cast("Json", result)) - {"_meta"}:
        peer.report("ping.empty", "ping", reply)


async def try_ids(peer: RawPeer) -> None:
    """Look whether ids come back as they were sent: texts, and large numbers."""
    for id in (ODD_ID, "7", 2**53 - 1):
        await peer.ask_for(peer.make_request(_harmless(peer), id=id), place=f"{_harmless(peer)} with the id {id!r}")


def _harmless(peer: RawPeer) -> str:
    return "server/discover" if peer.revision.modern else "ping"


async def try_unknown_method(peer: RawPeer) -> None:
    """Look whether an unknown method is an error."""
    place = "a request of an unknown method"
    reply = await peer.ask_for(peer.make_request(f"antiphon-check/{NOTHING}"), place=place)
    if reply is None:
        return
    if "result" in reply:
        peer.report("rpc.unknown-method", place, reply)
    elif is_error(reply.get("error")) and _code_of(reply) not in (-32601, 0):
        peer.report("rpc.unknown-method-code", place, reply)


def _code_of(reply: Json) -> Any:
    error = reply.get("error")
    return cast("Json", error).get("code") if isinstance(error, dict) else None


async def try_unknown_notification(peer: RawPeer) -> None:
    """Look whether notifications stay unanswered: also those that are unknown, or cancel nothing."""
    for method, params in (
        (f"notifications/{NOTHING}", {}),
        ("notifications/cancelled", {"requestId": NOTHING, "reason": "to see that it is ignored"}),
    ):
        if isinstance(peer, HttpPeer):
            # Over HTTP a status refuses what is not accepted; ``web_probes`` looks at it.
            continue
        before = len(peer.without_id)
        await peer.notify(method, params)
        await peer.ask_for(peer.make_request(_harmless(peer)), place=f"{_harmless(peer)} after {method}")
        if len(peer.without_id) > before:
            peer.report("rpc.notification-answered", method, peer.without_id[-1])


async def try_many_at_once(peer: RawPeer) -> None:
    """Look whether requests that are sent at once are all answered."""
    if not isinstance(peer, ChannelPeer) or peer.ended:
        return
    requests = [peer.make_request(_harmless(peer), id=f"at-once-{number}") for number in range(AT_ONCE)]
    for request in requests[:-1]:
        peer.await_also(request)
        await peer.send(request)
    await peer.ask_for(requests[-1], place=f"{AT_ONCE} requests at once")
    if missing := await peer.wait_for_others(QUIET):
        peer.report("rpc.silent", f"{AT_ONCE} requests at once", f"{missing} were not answered")


async def try_batch(peer: RawPeer) -> None:
    """Look whether a batch is answered, on the revision that has them."""
    if not peer.revision.batches or peer.ended:
        return
    requests = [peer.make_request("ping", id=f"batch-{number}") for number in range(2)]
    for request in requests:
        peer.await_also(request)
    peer.place = "a batch of two pings"
    if isinstance(peer, HttpPeer):
        await peer.post(requests, is_done=lambda: not peer.count_awaited())
    elif isinstance(peer, ChannelPeer):
        await peer.send(requests)
    if missing := await peer.wait_for_others(min(peer.wait, 3.0)):
        peer.report("rpc.batch", peer.place, f"{missing} of 2 were not answered")


async def try_large(peer: RawPeer) -> None:
    """Look whether a large request of signs outside ASCII is answered."""
    request = peer.make_request(_harmless(peer))
    request["params"]["_meta"]["antiphon.example/padding"] = "é\U0001f426\u2028" * (LARGE // 3)
    reply = await peer.ask_for(request, place=f"{_harmless(peer)} of four megabytes", quiet=True)
    if reply is None:
        peer.report("size.large", f"{_harmless(peer)} of four megabytes", peer.ended or "no reply")


async def try_garbage(peer: RawPeer) -> None:
    """Look whether what is no JSON is answered with an error, and the session goes on."""
    if not isinstance(peer, ChannelPeer) or peer.ended:
        return
    before = len(peer.without_id)
    await peer.send(b'{"jsonrpc": "2.0", "id": 1, "method": ')
    reply = await peer.ask_for(peer.make_request(_harmless(peer)), place="a request after a broken line", quiet=True)
    if reply is None:
        peer.report("rpc.survival", "a request after a broken line", peer.ended or "no reply")
        return
    errors = peer.without_id[before:]
    if not errors:
        peer.report("rpc.parse-error", "a broken line", "no error reply")
    elif _code_of(errors[0]) not in (-32700, -32600):
        peer.report("rpc.parse-error", "a broken line", errors[0])


async def try_logging(peer: RawPeer) -> None:
    """Look whether a server that declares logging lets the level be set."""
    if peer.revision.modern or "logging" not in peer.capabilities:
        return
    reply = await peer.ask("logging/setLevel", {"level": "error"})
    if reply is not None and "error" in reply:
        peer.report("logging.level", "logging/setLevel", reply)
    reply = await peer.ask("logging/setLevel", {"level": NOTHING})
    if reply is not None and "result" in reply:
        peer.report("logging.bad-level", f'logging/setLevel: level "{NOTHING}"', reply)


async def try_unknown_names(peer: RawPeer) -> None:
    """Look whether a prompt or resource that does not exist is an error."""
    ref = {"type": "ref/prompt", "name": NOTHING}
    for capability, method, params in (
        ("prompts", "prompts/get", {"name": NOTHING}),
        ("resources", "resources/read", {"uri": f"antiphon-check://{NOTHING}"}),
        ("completions", "completion/complete", {"ref": ref, "argument": {"name": NOTHING, "value": ""}}),
    ):
        reply = await peer.ask(method, params) if capability in peer.capabilities else None
        if reply is None:
            continue
        place = f"{method} of what does not exist"
        if capability == "completions":
            if _code_of(reply) == -32601:
                peer.report("completions.refused", method, reply)
        elif "result" in reply:
            peer.report(f"{capability}.unknown", place, reply)
        elif capability == "resources" and _code_of(reply) not in (-32002, -32602, 0):
            peer.report("resources.unknown-code", place, reply)


async def try_modern_metadata(peer: RawPeer) -> None:
    """Look whether a modern request without its metadata is refused."""
    if not peer.revision.modern:
        return
    request = peer.make_request("server/discover")
    request["params"] = {"_meta": {}}
    reply = await peer.ask_for(request, place="server/discover without metadata")
    if reply is not None and "result" in reply:
        peer.report("discover.metadata", "server/discover without metadata", reply)


async def listen_briefly(peer: RawPeer) -> None:
    """Take what comes without having been asked for: a server calls back only during a call."""
    peer.place = "while nothing was asked"
    if isinstance(peer, ChannelPeer):
        await peer.listen(QUIET)
    else:
        await asyncio.sleep(0)


Probe = Callable[[RawPeer], Awaitable[None]]

PROBES: tuple[Probe, ...] = (
    try_ping,
    try_ids,
    try_unknown_method,
    try_unknown_notification,
    try_many_at_once,
    try_batch,
    try_logging,
    try_unknown_names,
    try_modern_metadata,
    listen_briefly,
    try_large,
    try_garbage,
)
"""In this order: what a server may not survive comes last."""
