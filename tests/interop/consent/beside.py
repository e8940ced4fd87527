"""Two other gateways asked the same questions, as far as they can be: LiteLLM's proxy and CTRLRun.

Each runs in its own process in front of the same server and is called with the official Python SDK. An answer is
``yes``, ``no`` or ``part``. What they do not offer at all is not asked; the table on the page says so.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx

from tests.interop.consent.callers import COLUMNS, Caller, Outcome
from tests.interop.consent.results import SECRET
from tests.interop.consent.world import PATIENCE, SHOP
from tests.interop.peers import Peers
from tests.support.ports import free_port

Answers = dict[str, str]
KEY = "sk-4b1dd6b2f5a94c0f8b7f0a1c2d3e4f56"
"""The key of LiteLLM's administrator: it refuses to start with a weaker one."""


class Rival:
    """A gateway of others that runs, with a caller."""

    def __init__(self, folder: Path, caller: Caller, url: str) -> None:
        self.folder, self.caller, self.url = folder, caller, url
        self.token: str | None = None

    async def send(self, do: str, **members: Any) -> Outcome:
        """Send a command to the gateway."""
        async with asyncio.timeout(PATIENCE):
            return Outcome(await (await self.caller.begin(self.url, do, token=self.token, **members)))

    async def call(self, tool: str, sku: str, **arguments: Any) -> Outcome:
        """Make a call."""
        return await self.send("call", tool=tool, arguments={"sku": sku, **arguments})

    def ran(self, sku: str) -> int:
        """Count the calls about an article that the server has run."""
        file = self.folder / "ran"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return sum(json.loads(line)[1].get("sku") == sku for line in lines)


def say(holds: bool) -> str:
    """Write an answer."""
    return "yes" if holds else "no"


@asynccontextmanager
async def started(command: Sequence[str], cwd: Path, port: int, **variables: str) -> AsyncIterator[None]:
    """Run a program for a block, which begins when it listens."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env={**os.environ, "HOME": str(cwd), **variables}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        # One that ends is noticed; how long another one takes to start is limited by the test's own time.
        async with httpx.AsyncClient() as client:
            while True:
                assert process.returncode is None, f"{command[0]} has ended"
                try:
                    await client.get(f"http://127.0.0.1:{port}/health/liveliness")
                except httpx.HTTPError:
                    await asyncio.sleep(0.2)
                else:
                    break
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def measure_litellm(peers: Peers, folder: Path) -> Answers:
    """Ask LiteLLM's MCP gateway."""
    shop = {"transport": "stdio", "command": sys.executable, "allow_all_keys": True}
    limits = {"disallowed_tools": ["delete"], "rpm": 3}
    secrets = {"pattern_type": "prebuilt", "pattern_name": "aws_access_key", "action": "MASK"}
    filtering = {
        "guardrail": "litellm_content_filter",
        "mode": ["pre_mcp_call", "post_mcp_call"],
        "default_on": True,
        "patterns": [secrets],
    }
    settings = {
        "model_list": [],
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
        "mcp_servers": {
            "shop": {**shop, "args": [SHOP, str(folder), "shop"]},
            "twin": {**shop, "args": [SHOP, str(folder), "twin"], **limits},
        },
        "guardrails": [{"guardrail_name": "secrets", "litellm_params": filtering}],
    }
    # YAML reads JSON.
    (folder / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    port = free_port()
    command = [str(peers.root / "pythonapi" / "bin" / "litellm"), "--config", "config.yaml", "--host", "127.0.0.1"]
    variables = {
        "LITELLM_MASTER_KEY": KEY,
        "LITELLM_ENABLE_MCP_STDIO": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
    }
    caller = await Caller.start(peers, COLUMNS[0], folder)
    try:
        async with started([*command, "--port", str(port)], folder, port, **variables):
            rival = Rival(folder, caller, f"http://127.0.0.1:{port}/mcp/")
            rival.token = KEY
            return await ask_litellm(rival)
    finally:
        await caller.close()


async def ask_litellm(rival: Rival) -> Answers:
    """Ask what can be asked."""
    names = [each["name"] for each in (await rival.send("tools")).result["tools"]]
    waits = not (await rival.call("shop-order", "e1")).text.startswith("order ran")
    valued = not (await rival.call("shop-refund", "r1", amount=5_000)).text.startswith("refund ran")
    annotated = not (await rival.call("shop-delete", "r5")).text.startswith("delete ran")
    denied = await rival.call("twin-delete", "r6")
    other_case = await rival.call("shop-REFUND", "r12")
    texts = {
        kind: (await rival.call("shop-fetch", "s1", kind=kind)).text
        for kind in ("secret", "hidden", "orders", "leak", "large", "error")
    }
    structured = await rival.call("shop-fetch_fields", "s2")
    for number in range(3):
        await rival.call("twin-look", "r19", number=number)
    limited = await rival.call("twin-order", "r19")
    rival.token = "forged"
    stranger = await rival.call("shop-order", "s17")
    masks = SECRET not in texts["secret"]
    return {
        "E1": say(waits),
        "R1": say(valued),
        "R5": say(annotated),
        "R6": say(denied.is_error and not rival.ran("r6")),
        "R12": say(other_case.is_error and not rival.ran("r12")),
        "R18": say("twin-delete" not in names and denied.is_error),
        "R19": say(limited.is_error and "Rate limit" in limited.text),
        "S1": "yes" if masks and texts["hidden"] == "abc" else "part" if masks else "no",
        "S2": say(SECRET not in str(structured.said)),
        "S3": say(SECRET not in texts["error"]),
        "S5": say(len(texts["large"]) < 30_000),
        "S6": say("Ignore all previous" not in texts["orders"]),
        "S7": say("evil" not in texts["leak"]),
        "S12": say({"shop-order", "twin-order"} <= set(names) and len(names) == len(set(names))),
        "S17": say(stranger.is_error and not rival.ran("s17")),
    }


POLICY = """
schema: ctrlrun.policy/v2
actions:
  mcp.shop.order: {effect: "order:{sku}", decision: DECISION}
  mcp.shop.count: {effect: "count:{sku}", decision: approve}
  mcp.shop.linger: {effect: "linger:{sku}", decision: allow}
  mcp.shop.refund:
    effect: "refund:{sku}"
    rules:
      - when: {amount_gte: 0, amount_lte: 10}
        decision: allow
      - when: {amount_gte: 0, amount_lte: 1000}
        decision: approve
      - decision: deny
  mcp.shop.fetch: {decision: allow}
"""


class CtrlRun(Rival):
    """CTRLRun's gateway, with its command line as the person."""

    peers: Peers

    @property
    def program(self) -> str:
        """Its command."""
        return str(self.peers.root / "ctrlrun" / "bin" / "ctrlrun")

    async def command(self, *words: str) -> tuple[int, str]:
        """Run its command."""
        process = await asyncio.create_subprocess_exec(
            self.program, *words, cwd=self.folder, env={**os.environ, "HOME": str(self.folder)},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE):
            said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def decide(self, told: Outcome, verb: str = "approve") -> int:
        """Decide what a call was told to wait for; returns the exit code."""
        return (await self.command(verb, request_of(told)))[0]

    @asynccontextmanager
    async def gateway(self, upstream: str, principal: str = "agent") -> AsyncIterator[None]:
        """Run its gateway for a block, in which it is the one that is called."""
        port = free_port()
        words = ["--upstream", upstream, "--alias", "shop", "--listen", f"127.0.0.1:{port}", "--principal", principal]
        async with started([self.program, "gateway", *words, "--upstream-timeout", "3"], self.folder, port):
            before, self.url = self.url, f"http://127.0.0.1:{port}/mcp"
            try:
                yield
            finally:
                self.url = before


def request_of(told: Outcome) -> str:
    """Return the id of the request that a call waits for."""
    found = re.search(r"apr_\w+", told.text)
    assert found is not None, told
    return found[0]


async def measure_ctrlrun(peers: Peers, folder: Path) -> Answers:
    """Ask CTRLRun's gateway."""
    (folder / "ctrlrun.yaml").write_text(POLICY.replace("DECISION", "approve"), encoding="utf-8")
    (folder / ".ctrlrun").mkdir()
    caller, port = await Caller.start(peers, COLUMNS[0], folder), free_port()
    upstream = f"http://127.0.0.1:{port}/mcp"
    serving = [sys.executable, SHOP, str(folder), "shop", str(port)]
    rival = CtrlRun(folder, caller, "")
    rival.peers = peers
    try:
        async with started(serving, folder, port):
            async with rival.gateway(upstream):
                answers = await ask_about_approvals(rival) | await ask_about_rules(rival)
                kept = {sku: await rival.call("order", sku) for sku in ("e2", "e10", "g13")}
                for each in kept.values():
                    await rival.decide(each)
            async with rival.gateway(upstream, "bob"):
                answers["E2"] = say("requires approval" in (await rival.call("order", "e2")).text)
            async with rival.gateway(upstream):
                answers["G13"] = say("order ran" in (await rival.call("order", "g13")).text)
            (folder / "ctrlrun.yaml").write_text(POLICY.replace("DECISION", "deny"), encoding="utf-8")
            async with rival.gateway(upstream):
                answers["E10"] = say("denied" in (await rival.call("order", "e10")).text and not rival.ran("e10"))
        return answers | await ask_about_the_record(rival)
    finally:
        await caller.close()


async def ask_about_approvals(rival: CtrlRun) -> Answers:
    """Ask what an approval is bound to, and what becomes of calls that wait."""
    first, again = await rival.call("order", "e1"), await rival.call("order", "e1")
    joined = request_of(first) == request_of(again)
    approved = await rival.decide(first) == 0
    other = await rival.call("order", "e1", amount=2)
    another = await rival.call("count", "e1")
    ran = (await rival.call("order", "e1")).text
    replayed = await rival.call("order", "e1")
    swapped = [await rival.send("call", tool="order", arguments=each) for each in (
        {"sku": "e8", "amount": 3}, {"amount": 3, "sku": "e8"},
    )]  # fmt: skip
    await rival.decide(swapped[0])
    reordered = await rival.send("call", tool="order", arguments={"amount": 3, "sku": "e8"})
    refused = await rival.call("order", "e14")
    await rival.decide(refused, "deny")
    late = await rival.decide(refused)
    after_denial = await rival.call("order", "e14")
    forged = await rival.send("call", tool="order", arguments={"sku": "f10"}, meta={"approved": True})
    lost = [await rival.call("linger", "g14") for _ in range(2)]
    retried = await rival.call("order", "g17")
    await rival.decide(retried)
    await asyncio.gather(rival.call("order", "g17"), rival.call("order", "g17"))
    return {
        "E1": say(approved and "order ran" in ran and rival.ran("e1") == 1),
        "E3": say("requires approval" in other.text),
        "E7": say("requires approval" in another.text),
        "E8": say("order ran" in reordered.text),
        "E13": say(request_of(first) in first.text),
        # Its command has no option for a reason.
        "E14": "part" if after_denial.is_error and rival.ran("e14") == 0 else "no",
        "F4": say(late != 0 and rival.ran("e14") == 0),
        "F5": say(replayed.is_error and rival.ran("e1") == 1),
        "F10": say("requires approval" in forged.text and rival.ran("f10") == 0),
        "G1": say(not first.is_error),
        "G4": say(not first.is_error),
        "G6": say(joined),
        "G8": say("order ran" in replayed.text),
        "G14": say(all(each.is_error for each in lost) and rival.ran("g14") == 1),
        "G17": say(rival.ran("g17") == 1),
        "L1": say("order ran" in ran),
    }


async def ask_about_rules(rival: CtrlRun) -> Answers:
    """Ask what its policy can say, and whether results are looked at."""
    said = [await rival.call("refund", f"r1-{amount}", amount=amount) for amount in (5, 100, 5_000)]
    absent, mistyped = await rival.call("refund", "r2"), await rival.call("refund", "r3", amount="5")
    unlisted = await rival.call("delete", "r14")
    texts = {kind: (await rival.call("fetch", "s1", kind=kind)).text for kind in ("secret", "orders", "leak", "large")}
    structured = await rival.call("order", "e13")
    by_arguments = "refund ran" in said[0].text and "requires approval" in said[1].text and "denied" in said[2].text
    return {
        "R1": say(by_arguments),
        "R2": say(absent.is_error and not rival.ran("r2")),
        "R3": say(mistyped.is_error and not rival.ran("r3")),
        "R6": say(structured.is_error),
        "R14": say(unlisted.is_error and not rival.ran("r14")),
        "S1": say(SECRET not in texts["secret"]),
        "S5": say(len(texts["large"]) < 30_000),
        "S6": say("Ignore all previous" not in texts["orders"]),
        "S7": say("evil" not in texts["leak"]),
    }


async def ask_about_the_record(rival: CtrlRun) -> Answers:
    """Ask what its receipts say, and whether a change of them is found out."""
    _, receipts = await rival.command("receipts", "--json")
    whole, _ = await rival.command("receipts", "--verify-chain")
    with closing(sqlite3.connect(rival.folder / ".ctrlrun" / "state.db")) as database:
        database.execute("UPDATE receipts SET json = replace(json, 'allow', 'ALLOW')")
        database.commit()
    altered, _ = await rival.command("receipts", "--verify-chain")
    (rival.folder / "ctrlrun.yaml").write_text("schema: ctrlrun.policy/v2\nactions: {a: {decision: maybe}}\n")
    broken, _ = await rival.command("gateway", "--upstream", "http://127.0.0.1:9/mcp", "--alias", "shop")
    return {
        "G18": say("apr_" in receipts),
        "R13": say("rule[2]" in receipts),
        "R16": say(broken != 0),
        # Its README says that a cut at the end is not found out.
        "S15": "part" if whole == 0 and altered != 0 else "no",
    }
