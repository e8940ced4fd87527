"""``antiphon policy``: what is configured, why a request would pass or not, and permissions taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.errors import Rejected
from antiphon.host.store.base import BlockRow
from antiphon.identity import identity_of
from tests.cli.conftest import Cli
from tests.cli.program import SHOP
from tests.cli.waiting import Waiting
from tests.host.asks import SERVER, origin, request

CONFIG = f"""
[servers.shop]
target = {json.dumps(SERVER)}
review = "never"

[servers.shop.budget]
call = 0.05

[servers.closed]
identity = "command:closed"
review = "refuse"

[[policy.rules]]
effect = "allow"
server = "command:*"
tools = false
max_tokens = 100

[[policy.rules]]
effect = "deny"
over_tokens = 4000

[[policy.rules]]
effect = "deny"
background = true
kind = "sampling"
"""


@pytest.fixture
def policy(cli: Cli) -> Cli:
    """Run a command where all this is configured."""
    Path("own.toml").write_text(CONFIG, encoding="utf-8")
    return lambda *words: cli("policy", *words, "--config", "own.toml")


def ask(max_tokens: int = 50, **more) -> str:
    """Write a request into a file."""
    params = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}], "maxTokens": max_tokens}
    Path("request.json").write_text(json.dumps({**params, **more}), encoding="utf-8")
    return "request.json"


def message(method: str, params: dict[str, object]) -> str:
    """Write a message into a file."""
    Path("message.json").write_text(json.dumps({"method": method, "params": params}), encoding="utf-8")
    return "message.json"


def test_without_configuration_everything_is_asked_about(cli: Cli):
    """And denied where nobody can be asked."""
    done = cli("policy")
    assert done.code == 0
    assert "Nothing is configured" in done.out
    assert "no rule matches: ask\n  nobody can be asked: deny\n" in done.out


def test_rules_are_shown_in_the_order_they_are_weighed(policy: Cli):
    """Denials first, then what holds for each server."""
    shown = policy("show").out
    rules = ["deny: server *, over tokens 4000", "allow: server command:*, tools no, max tokens 100"]
    assert [shown.replace("_", " ").index(rule) for rule in rules] == sorted(
        shown.replace("_", " ").index(rule) for rule in rules
    )
    assert "\npython catalogue.py\n  review of requests: never" in shown
    assert "\ncommand:closed\n  review of requests: refuse" in shown
    assert "max tokens 16384" in shown


def test_a_file_that_is_not_there_is_not_taken_for_none(cli: Cli):
    """What a misspelt file says would not apply, and nobody would hear of it."""
    for name in ("none.json", "."):
        done = cli("policy", "--config", name)
        assert done.code == 2
        assert f"antiphon: {name}: " in done.err


def test_what_holds_is_printed_as_json(policy: Cli):
    """The policy, and the settings of each server."""
    [shown] = policy("--json").objects
    assert shown["policy"]["default"] == "ask"
    general, shop, closed = shown["servers"]
    assert (general["identity"], shop["target"], shop["review"]) == ("*", "python catalogue.py", "never")
    assert (closed["identity"], shop["budget"]["call"]) == ("command:closed", "0.05")


def test_what_holds_for_one_server(policy: Cli):
    """Found by its command line."""
    shown = policy("show", "--server", "python catalogue.py").out
    assert "no rule matches: allow" in shown
    assert "review of requests: never" in shown
    assert "closed" not in shown


@pytest.mark.parametrize(
    ("words", "code", "verdict"),
    [
        ((), 0, "=> allow: allow (server=command:*, tools=False, max_tokens=100)"),
        (("--background",), 1, "=> deny: deny (server=*, kind=sampling, background=True)"),
        (("--server", "https://example.com/mcp"), 0, "=> ask: no rule matches, the default is ask"),
        (("--server", "https://example.com/mcp", "--headless"), 1, "=> deny: nobody can be asked ("),
        (("--server", "command:closed"), 1, "=> deny: no rule matches, the default is deny"),
        (("--server", "python catalogue.py", "--headless"), 0, "=> allow"),
    ],
)
def test_a_verdict_is_explained(words: tuple[str, ...], code: int, verdict: str, policy: Cli):
    """Rule by rule, and last what is decided; 1 for a denial."""
    done = policy("explain", ask(), *words)
    assert done.code == code
    assert done.out.splitlines()[-1].startswith(verdict)


def test_each_rule_has_its_reason(policy: Cli):
    """Why it matches or not."""
    lines = policy("explain", ask(5000)).out.splitlines()
    assert lines[0] == "deny (server=*, over_tokens=4000): matches"
    assert lines[2].endswith(": the request is for 5000 tokens")


def test_an_explanation_is_printed_as_json(policy: Cli):
    """The verdict, and each rule with its mismatch."""
    [said] = policy("explain", ask(), "--json").objects
    assert (said["effect"], said["reason"]) == ("allow", "rule")
    assert [rule["mismatch"] for rule in said["rules"]] == [
        "the request is for 50 tokens",
        "the ask belongs to a call",
        None,
    ]


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        (
            "elicitation/create",
            {"mode": "form", "message": "Who?", "requestedSchema": {"properties": {}}},
            "elicitation",
        ),
        ("tools/call", {"name": "pay", "arguments": {}}, "the call of a tool"),
    ],
)
def test_other_asks_are_explained_as_well(method: str, params: dict[str, object], said: str, policy: Cli):
    """A message names its method."""
    done = policy("explain", message(method, params))
    assert done.code == 0
    assert f"it is {'an ' if said == 'elicitation' else ''}{said}" in done.out


DEEP = '{"tool": "pay", "arguments": {"a": %s}}' % ("[" * 60_000 + "]" * 60_000)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"method": "tools/call"}', '{"method": "elicitation/create", "params": 1}', DEEP]
)
def test_what_is_no_request_is_a_mistake(text: str, policy: Cli):
    """And exits with 2."""
    Path("request.json").write_text(text, encoding="utf-8")
    done = policy("explain", "request.json")
    assert (done.code, "request.json: not a" in done.err) == (2, True)


def test_a_mistake_in_the_configuration_is_named(cli: Cli):
    """With its line."""
    Path("own.toml").write_text('[policy]\ndefault = "perhaps"\n', encoding="utf-8")
    done = cli("policy", "show", "--config", "own.toml")
    assert (done.code, "own.toml, line 2" in done.err) == (2, True)


async def test_grants_are_listed_and_revoked(desk: Waiting):
    """What was allowed for more than once, how far it is used up; then it is asked about again."""
    asked = await desk.ask()
    words = ["--scope", "always", "--uses", "3", "--up-to", "2"]
    await desk.run("review", "approve", await desk.named(), *words)
    await asked
    await desk.host(request(), origin("9"))
    row = (await desk.run("policy", "grants")).out.rstrip("\n").split("\t")
    assert (row[2], row[3:6]) == (identity_of(SERVER), ["up to 100 tokens", "always", "1 of 3"])
    assert row[6].endswith(" of $2.00")
    [listed] = (await desk.run("policy", "grants", "list", "--json")).objects
    assert (listed["id"], listed["used"]) == (row[0], 1)
    done = await desk.run("policy", "grants", "revoke", row[0][:8])
    assert done.out == f"{row[0]}: revoked, the next request asks again\n"
    assert (await desk.run("policy", "grants")).out == ""
    assert (await desk.run("policy", "grants", "revoke", row[0])).code == 1
    assert not (await desk.ask()).done()


async def test_a_server_is_blocked_and_may_ask_again(desk: Waiting):
    """A denial may reach all that a server asks."""
    asked = await desk.ask()
    assert (await desk.run("review", "deny", (await desk.pending()).id, "--reach", "server")).code == 0
    with pytest.raises(Rejected, match="rejected"):
        await asked
    [blocked] = (await desk.run("policy", "blocks", "--json")).objects
    assert (blocked["identity"], blocked["target"]) == (identity_of(SERVER), "python catalogue.py")
    with pytest.raises(Rejected, match="blocked"):
        await desk.host(request(), origin("9"))
    assert (await desk.run("policy", "blocks", "lift", identity_of(SERVER)[:14])).code == 0
    assert not (await desk.ask()).done()


async def test_a_block_that_is_not_clear_stays(desk: Waiting):
    """The possible ones are named."""
    for name in ("command:1a", "command:1b"):
        await desk.store.block(BlockRow(identity=name, target="x\x1b[2J", since=0.0))
    assert (await desk.run("policy", "blocks", "lift", "command:1")).code == 2
    assert (await desk.run("policy", "blocks", "lift", "command:2")).code == 1
    listed = (await desk.run("policy", "blocks")).out
    assert (len(listed.splitlines()), "\x1b" in listed) == (2, False)


def test_a_py_file_is_the_server_that_call_starts(policy: Cli):
    """As for every TARGET."""
    assert policy("explain", ask(), "--server", SHOP).code == 0


RULES = """
[[policy.rules]]
effect = "ask"
when = 'tool == "transfer" && args.amount > 100'

[[policy.rules]]
effect = "allow"
name = "transfer"
"""
CASES = """
[[cases]]
tool = "transfer"
arguments = { amount = 50 }
expect = "allow"

[[cases]]
name = "without an amount"
tool = "transfer"
headless = true
expect = "deny"
"""


def test_a_call_is_explained_by_its_arguments(cli: Cli):
    """With the rule that decides, and why another one is unclear."""
    Path("rules.toml").write_text(RULES, encoding="utf-8")
    Path("call.json").write_text('{"tool": "transfer", "arguments": {"amount": "500"}}', encoding="utf-8")
    done = cli("policy", "explain", "call.json", "--config", "rules.toml")
    assert done.code == 0
    assert "it is unclear whether this matches: No such overload" in done.out
    assert "=> ask: ask (server=*, when=tool ==" in done.out
    assert cli("policy", "explain", "call.json", "--headless", "--config", "rules.toml").code == 1
    Path("call.json").write_text('{"tool": "transfer", "args": {"amount": 500}}', encoding="utf-8")
    assert 'nor a call {"tool": ..., "arguments": {...}}' in cli("policy", "explain", "call.json").err


def test_cases_are_compared_with_the_decisions(cli: Cli):
    """Exit code 1 if one differs, which is named."""
    Path("rules.toml").write_text(RULES, encoding="utf-8")
    Path("cases.toml").write_text(CASES, encoding="utf-8")
    done = cli("policy", "test", "cases.toml", "--config", "rules.toml")
    assert (done.code, done.out.splitlines()[-1]) == (0, "2 of 2 as expected")
    # With the mark that editors of Windows write.
    Path("cases.toml").write_text(CASES.replace('"deny"', '"allow"'), encoding="utf-8-sig")
    done = cli("policy", "test", "cases.toml", "--config", "rules.toml")
    assert done.code == 1
    assert "without an amount: expected allow, but deny: tool ==" in done.out
    first = cli("policy", "test", "cases.toml", "--json", "--config", "rules.toml").objects[0]
    assert (first["expect"], first["effect"]) == ("allow", "allow")


@pytest.mark.parametrize(
    "text",
    [
        "cases = []",
        "[[cases]]\ntool = 'a'",
        "[[cases]]\nexpect = 'deny'",
        "cases = 5",
        "[[cases]]\ntool = 'a'\nexpekt = 'deny'",
    ],
)
def test_a_file_of_cases_that_cannot_be_read_is_an_error(cli: Cli, text: str):
    """It says what such a file is."""
    Path("cases.toml").write_text(text, encoding="utf-8")
    done = cli("policy", "test", "cases.toml")
    assert done.code != 0
    assert "not a file of cases" in done.err


def test_a_bad_condition_is_an_error_with_its_place(cli: Cli):
    """At the start, with the line and the remedy."""
    Path("rules.toml").write_text(RULES.replace("args.", "arg."), encoding="utf-8")
    done = cli("policy", "show", "--config", "rules.toml")
    assert done.code != 0
    assert "rules.toml, line 2: policy.rules[0]: when: there is no arg; did you mean 'args'?" in done.err


def test_a_rule_that_names_a_server_is_an_error_with_its_place(cli: Cli):
    """It would never match; the remedy is a command."""
    Path("rules.toml").write_text('[[policy.rules]]\neffect = "deny"\nserver = "mail"\n', encoding="utf-8")
    done = cli("policy", "show", "--config", "rules.toml")
    assert done.code == 2
    assert "rules.toml, line 1: policy.rules[0]: server: the name 'mail' never matches" in done.err
    assert "antiphon policy show --server mail prints what to write" in done.err
