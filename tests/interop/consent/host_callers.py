"""Hosts that call tools as they are told: Claude Code and Gemini CLI, each with a model on loopback.

A check's call is what the model asks for next, and what the host then sends to the model is the outcome of the call.
Until there is a call the model thinks, so that one conversation serves many checks.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.consent.callers import PENDING, Target
from tests.interop.host_homes import HOSTS, Home
from tests.interop.peers import PATIENCE, Peers
from tests.interop.scripted_model import LAST_WORDS, Offered, ScriptedModel, Step, ToolUse

Address = tuple[str, str | None]
"""A target as JSON, and the token that is sent to it."""
Said = dict[str, Any]
WAITS = re.compile(r"This call (?:waits for approval by a person|was approved and runs) \(id (\w+)\)")
FRAME = re.compile(r"<untrusted_context>\n(.*)\n</untrusted_context>", re.DOTALL)
"""What Gemini CLI puts around the results of tools."""
AT_ONCE = 2
"""Conversations that stand ready, so as many calls can be made at once."""
LONGEST = 1_200
"""Seconds that a conversation may last on a busy machine."""


def read_claude(block: Mapping[str, Any]) -> tuple[str, bool]:
    """Return text and failure of a call from what Claude Code sends to its model."""
    content = block["content"]
    text = content if isinstance(content, str) else "".join(each.get("text", "") for each in content)
    return text, bool(block.get("is_error"))


def read_gemini(response: Mapping[str, Any]) -> tuple[str, bool]:
    """Return text and failure of a call from what Gemini CLI sends to its model."""
    if "error" in response:
        return str(response["error"]), True
    framed = FRAME.fullmatch(response["output"])
    return framed[1] if framed else response["output"], False


class HostManner(NamedTuple):
    """How a host names tools to its model, is permitted to call them, and hands on what they return."""

    prefix: str
    """Stands before the name of a tool, with the name of its server."""
    permits: Callable[[Sequence[str]], Sequence[str]]
    """Returns what follows its command line so that it calls the tools of these servers."""
    reads: Callable[[str, str], ToolUse]
    """Makes the call by which its model reads a resource of a server."""
    read_result: Callable[[Mapping[str, Any]], tuple[str, bool]]


MANNERS = {
    "claude-code": HostManner(
        "mcp__{}__",
        lambda servers: [f"mcp__{name}" for name in servers],
        lambda server, uri: ToolUse("ReadMcpResourceTool", {"server": server, "uri": uri}),
        read_claude,
    ),
    "gemini": HostManner(
        "mcp_{}_",
        lambda _servers: [],
        lambda server, uri: ToolUse("read_mcp_resource", {"uri": f"{server}:{uri}"}),
        read_gemini,
    ),
}


class ThinkingModel(ScriptedModel):
    """A model whose script grows while the host waits for it."""

    def __init__(self) -> None:
        self._script: list[ToolUse] = []
        super().__init__(self._script)
        self._answers: list[asyncio.Future[Any]] = []
        self._changed = asyncio.Event()
        self._is_over = False
        self.tools: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
        """The names that the host offers, once it has begun."""

    def begin(self, use: ToolUse) -> asyncio.Future[Any]:
        """Ask for a call; the future has what the host sends of it."""
        self._script.append(use)
        self._answers.append(asyncio.get_running_loop().create_future())
        self._changed.set()
        return self._answers[-1]

    def end(self) -> None:
        """Say the last words after the last call."""
        self._is_over = True
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """Fail whatever still waits for the host."""
        for future in (self.tools, *self._answers):
            if not future.done():
                future.set_exception(error)
                # Nobody may wait for it.
                future.exception()

    async def choose_step(self, offered: Sequence[Offered], results: Sequence[Any]) -> Step:
        """Hand back the results, and wait for the next call. A request for another purpose offers no tools."""
        if not offered:
            return Step(None, {}, "")
        if not self.tools.done():
            self.tools.set_result([one.name for one in offered])
        for answer, result in zip(self._answers, results, strict=False):
            if not answer.done():
                answer.set_result(result)
        while len(self._script) == len(results) and not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        return await super().choose_step(offered, results)


class Conversation:
    """A session of a host that runs.

    Args:
        peers: the installed programs.
        host: the name of the host.
        folder: its home, which is empty.
        addresses: the gateways that it is told of, by the names under which it has them.
    """

    def __init__(self, peers: Peers, host: str, folder: Path, addresses: Mapping[str, Address]) -> None:
        self._manner, self._model = MANNERS[host], ThinkingModel()
        self._process: asyncio.subprocess.Process | None = None
        self._running = asyncio.create_task(self._run(peers, host, folder, addresses))

    async def _run(self, peers: Peers, host: str, folder: Path, addresses: Mapping[str, Address]) -> None:
        program, said = HOSTS[host], b"It has not begun."
        try:
            async with self._model:
                home = Home(folder, peers, program.environ(self._model.url))
                entries = {name: describe_server(address) for name, address in addresses.items()}
                home.write(home.file(host), program.settings(entries, self._model.url))
                words = [*program.ask, *self._manner.permits([*entries])]
                async with home.started(*words, within=LONGEST) as self._process:
                    said, _ = await self._process.communicate()
        finally:
            self._model.fail(ConnectionError(f"{host} has ended: {said.decode()[-2_000:]}"))
        assert LAST_WORDS in said.decode(), said.decode()[-2_000:]

    async def list_tools(self, server: str) -> list[str]:
        """Return the names of a server's tools, as the host offers them to its model."""
        prefix, names = self._manner.prefix.format(server), await asyncio.shield(self._model.tools)
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    async def carry_out(self, server: str, do: str, tool: str = "", uri: str = "", **members: Any) -> Said:
        """Carry out one command of a check."""
        offered = await self.list_tools(server)
        if do == "tools":
            return {"result": {"tools": [{"name": name} for name in offered]}}
        if do == "read":
            return self._read(await self._model.begin(self._manner.reads(server, uri)))
        if tool not in offered:
            return {"error": f"The host offers its model no {tool}, only {offered}."}
        use = ToolUse(self._manner.prefix.format(server) + tool, members["arguments"])
        return self._read(await self._model.begin(use))

    def _read(self, sent: Mapping[str, Any]) -> Said:
        """Write what the model was sent as the result that it was made of."""
        text, is_error = self._manner.read_result(sent)
        result: Said = {"content": [{"type": "text", "text": text}], "isError": is_error}
        if waits := WAITS.search(text):
            result["_meta"] = {PENDING: waits[1]}
        if text.startswith("{") and not is_error:
            result["structuredContent"] = json.loads(text)
        return {"result": result}

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)

    async def close(self) -> None:
        """End it as the model ends it."""
        self._model.end()
        async with asyncio.timeout(PATIENCE):
            await self._running

    async def kill(self) -> None:
        """End it whatever it does."""
        self._running.cancel()
        await asyncio.wait([self._running])


def describe_server(address: Address) -> dict[str, Any]:
    """Write what a host's configuration says of a gateway."""
    target, token = json.loads(address[0]), address[1]
    if isinstance(target, str):
        return {"type": "http", "url": target, "headers": {"Authorization": f"Bearer {token}"}}
    return {"type": "stdio", "command": target[0], "args": target[1:]}


class HostCaller:
    """Conversations of one host: some that have all gateways, and one for each gateway that was not known before.

    Args:
        peers: the installed programs.
        host: the name of the host.
        folder: a folder for the homes.
        known: the gateways of the conversations that stand ready.
    """

    def __init__(self, peers: Peers, host: str, folder: Path, known: Sequence[Address]) -> None:
        self._peers, self._host, self._folder = peers, host, folder
        self._homes = 0
        self._known = {address: f"g{number:02}" for number, address in enumerate(dict.fromkeys(known))}
        names = {name: address for address, name in self._known.items()}
        self._ready = [self._open(names) for _ in range(AT_ONCE)]
        self._idle: asyncio.Queue[Conversation] = asyncio.Queue()
        for each in self._ready:
            self._idle.put_nowait(each)
        self._further: dict[Address, Conversation] = {}
        self._given_up: dict[asyncio.Future[Said], Conversation] = {}

    def _open(self, addresses: Mapping[str, Address]) -> Conversation:
        self._homes += 1
        folder = self._folder / f"{self._host}-{self._homes}"
        folder.mkdir()
        return Conversation(self._peers, self._host, folder, addresses)

    async def begin(
        self, target: Target, do: str, *, token: str | None = None, is_given_up: bool = False, **members: Any
    ) -> asyncio.Future[Said]:
        """Have a command carried out by a conversation that has nothing else to do; the future has its answer.

        ``is_given_up``: the command will be given up, with which its conversation ends; so it gets one of its own.
        """
        address = json.dumps(target), token
        name = self._known.get(address)
        if do == "close":
            return asyncio.create_task(self._close(address))
        if name is not None and not is_given_up:
            conversation = await self._idle.get()
            return asyncio.create_task(self._take_turn(conversation, name, do, members))
        if address not in self._further:
            self._further[address] = self._open({"own": address})
        calling = asyncio.create_task(self._further[address].carry_out("own", do, **members))
        if is_given_up:
            calling = asyncio.create_task(self._follow(calling))
            self._given_up[calling] = self._further[address]
        return calling

    def give_up(self, calling: asyncio.Future[Said]) -> None:
        """Interrupt the host in a call that it was told to make."""
        self._given_up.pop(calling).interrupt()

    async def _take_turn(self, conversation: Conversation, name: str, do: str, members: Mapping[str, Any]) -> Said:
        try:
            return await conversation.carry_out(name, do, **members)
        finally:
            self._idle.put_nowait(conversation)

    async def _follow(self, calling: asyncio.Future[Said]) -> Said:
        """Wait for the outcome of a call, which is an error if its host ends before."""
        try:
            return await calling
        except ConnectionError as error:
            return {"error": str(error)}

    async def _close(self, address: Address) -> Said:
        await self._further.pop(address).close()
        return {"result": {}}

    async def prepare(self) -> None:
        """Wait until the conversations have the tools of their gateways."""
        for conversation in self._ready:
            for name in self._known.values():
                assert await conversation.list_tools(name), f"{self._host} has no tools of {name}"

    async def leave(self, called: Iterable[tuple[Target, str | None]]) -> None:
        """End conversations that were opened for single gateways, if these are among them."""
        for target, token in called:
            if further := self._further.pop((json.dumps(target), token), None):
                await further.kill()

    async def close(self) -> None:
        """End all conversations."""
        await asyncio.gather(*(each.kill() for each in self._further.values()))
        await asyncio.gather(*(each.close() for each in self._ready))
