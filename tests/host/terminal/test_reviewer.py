"""The reviewer at a real pseudo-terminal, in a program of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pexpect
import pytest

from antiphon.errors import Rejected
from antiphon.host import Host
from antiphon.host.terminal import TerminalReviewer
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import Tool
from tests.host.asks import origin, request, says
from tests.host.terminal.screenful import screenful

ROOT = Path(__file__).parents[3]
PROMPT = "decision> "
Spawn = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Spawn]:
    """Start the driver program at a terminal of its own; end it with the test."""
    started: list[pexpect.spawn[str]] = []

    def spawn(*asks: dict, editor: str = "false", columns: int = 100) -> pexpect.spawn[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "VISUAL": "",
            "EDITOR": editor,
            "TMPDIR": str(tmp_path),
        }
        program = [str(Path(__file__).with_name("driver.py")), json.dumps(asks)]
        child = pexpect.spawn(
            sys.executable, program, env=environment, encoding="utf-8", timeout=60, dimensions=(24, columns)
        )
        child.delaybeforesend = None
        started.append(child)
        return child

    yield spawn
    for child in started:
        child.close(force=True)


def ask(text: str = "Describe a sweater", **more) -> dict:
    """Make an ask for the driver."""
    return {"params": json.loads(encode_value(request(text, **more)))}


def outcome(child: pexpect.spawn[str]) -> dict:
    """Return what the program answered."""
    child.expect(r"RESULT ([^\r\n]*)\r")
    return json.loads(child.match[1])


def test_a_person_approves(start: Spawn):
    """Shown who asks for what; one key; the provider answers."""
    child = start(ask(system_prompt="Be brief"))
    child.expect(PROMPT)
    for part in ("python catalogue.py", "tools/call describe", "Be brief", "Describe a sweater", "Tokens at most: 100"):
        assert part in child.before
    child.sendline("a")
    assert outcome(child)["content"]["text"] == "[echo] Describe a sweater"


def test_nothing_is_left_behind(start: Spawn, tmp_path: Path):
    """No thread, no file, and the program ends by itself."""
    child = start(ask())
    child.expect(PROMPT)
    child.sendline("a")
    child.expect(r"THREADS \['MainThread'\]")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert list(tmp_path.iterdir()) == []


def test_a_person_edits(start: Spawn, tmp_path: Path):
    """In an editor of their choice; the difference is shown; what was approved then is what is sent."""
    program = tmp_path / "editor.py"
    program.write_text(
        "import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n"
        "path.write_text(path.read_text().replace('sweater', 'hat').replace('= 100', '= 9'))\n"
    )
    child = start(ask(), editor=shlex.join([sys.executable, str(program)]))
    child.expect(PROMPT)
    child.sendline("e")
    child.expect("What was changed")
    child.expect(PROMPT)
    assert "- messages[0] user: Describe a sweater" in child.before
    assert "+ messages[0] user: Describe a hat" in child.before
    assert "Approve the edited request" in child.before
    assert "[g]" not in child.before
    child.sendline("a")
    assert outcome(child)["content"]["text"] == "[echo] Describe a hat"


def test_an_edit_that_goes_wrong_changes_nothing(start: Spawn, tmp_path: Path):
    """A failing editor, a form that wants more tokens, and a form left as it was."""
    program = tmp_path / "editor.py"
    turns = tmp_path / "turns"
    turns.touch()
    program.write_text(
        "import pathlib, sys\npath, turns = map(pathlib.Path, (sys.argv[2], sys.argv[1]))\n"
        "turn = len(turns.read_text())\nturns.write_text('x' * (turn + 1))\n"
        "if turn == 0: sys.exit(1)\n"
        "if turn == 1: path.write_text(path.read_text().replace('= 100', '= 101'))\n"
    )
    child = start(ask(), editor=shlex.join([sys.executable, str(program), str(turns)]))
    for expected in ("exit code 1", "must be from 1 to 100", "Nothing was changed."):
        child.expect(PROMPT)
        child.sendline("e")
        child.expect(expected)
    child.expect(PROMPT)
    child.sendline("a")
    assert outcome(child)["content"]["text"] == "[echo] Describe a sweater"


def test_a_person_denies_with_a_reason(start: Spawn):
    """The reason stays on this side, as a note, unless the person says that the server is told."""
    child = start(ask())
    child.expect(PROMPT)
    child.sendline("r")
    child.expect("reason, or a number")
    child.sendline("too nosy")
    child.expect("tell the server")
    child.sendline("no")
    assert outcome(child) == {"code": -1, "data": {"reason": "user"}, "notes": ["denied: too nosy"]}


def test_ctrl_d_denies(start: Spawn):
    """Whoever turns away does not approve."""
    child = start(ask())
    child.expect(PROMPT)
    child.sendeof()
    assert outcome(child)["data"] == {"reason": "user"}


def test_a_person_answers_in_several_lines(start: Spawn):
    """Ended by a dot; an empty answer is asked again."""
    child = start(ask() | {"provider": "manual"})
    child.expect(PROMPT)
    assert "[a]" not in child.before
    child.sendline("w")
    child.expect("single dot")
    child.sendline(".")
    child.expect("empty answer")
    child.expect(PROMPT)
    child.sendline("w")
    child.expect("single dot")
    child.send("A warm one.\nOf wool.\n.\n")
    result = outcome(child)
    assert (result["content"]["text"], result["model"]) == ("A warm one.\nOf wool.", "human")


def test_help_explains_the_keys(start: Spawn):
    """Only those that are offered."""
    child = start(ask() | {"provider": "manual"})
    child.expect(PROMPT)
    child.sendline("?")
    child.expect(PROMPT)
    assert "Write the answer yourself." in child.before
    assert "Approve what is shown" not in child.before


def test_several_requests_come_one_at_a_time(start: Spawn):
    """Each waits for its turn; keys typed for one do not decide the next."""
    child = start(ask("number one"), ask("number two"))
    child.expect(PROMPT)
    assert "1 more waiting" in child.before
    assert "number two" not in child.before
    child.send("d\n\na\n")
    child.expect("number two")
    child.expect(PROMPT)
    child.sendline("a")
    child.expect("RESULT")
    assert outcome(child)["content"]["text"] == "[echo] number two"


@pytest.mark.parametrize("scope", ["1", "2", "3"])
def test_a_grant_spares_the_next_question(start: Spawn, scope: str):
    """For the call, the session or always, within a number of requests."""
    host_asks = [ask("first"), ask("second")]
    child = start({**host_asks[0], "one_by_one": True}, host_asks[1])
    child.expect(PROMPT)
    child.sendline("g")
    child.expect("3 always> ")
    child.sendline(scope)
    child.expect("how many requests at most")
    child.sendline("")
    child.expect(r"RESULT.*RESULT[^\r\n]*second")


def test_a_request_that_is_withdrawn_says_so(start: Spawn):
    """The prompt disappears, and the next request has its turn."""
    child = start(ask("first"), ask("second"))
    child.expect(PROMPT)
    child.kill(signal.SIGUSR1)
    child.expect("Withdrawn. Nothing to decide.")
    child.expect(PROMPT)
    told = child.before
    assert "second" in told
    child.sendline("a")
    child.expect(r"RESULT (\{[^\r\n]*)\r")
    assert json.loads(child.match[1])["content"]["text"] == "[echo] second"
    # The first one ends before or after the second one is shown.
    assert "RESULT CancelledError" in told + child.before


def test_a_request_that_expires_says_so(start: Spawn):
    """Refused, with a reason that is not the person's."""
    child = start(ask() | {"expires": 0.3})
    child.expect("Expired: refused. Nothing to decide.")
    assert outcome(child)["data"] == {"reason": "expired"}


def test_payloads_reach_the_terminal_as_text(start: Spawn):
    """No byte of an escape sequence of the server's arrives at the terminal."""
    payload = "\x1b]52;c;ZWNobw==\x07\x1b[2J\x9b31m\r\u202e\u200b"
    child = start(ask(payload, messages=[says(payload)], system_prompt=payload))
    child.expect(PROMPT)
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u200b"} & set(child.before)
    assert child.before.count("⟦U+001B⟧]52;c;ZWNobw==⟦U+0007⟧") == 2


@pytest.mark.parametrize("key", ["s", "b"])
def test_a_call_is_stopped_and_a_server_blocked(start: Spawn, key: str):
    """The next ask is refused without a question."""
    child = start(ask("first") | {"one_by_one": True}, ask("second"))
    child.expect(PROMPT)
    child.sendline(key)
    child.expect("reason")
    child.sendline("enough")
    child.expect("tell the server")
    child.sendline("")
    child.expect(r"RESULT[^\r\n]*enough.*RESULT ([^\r\n]*)\r")
    assert json.loads(child.match[1])["data"] == {"reason": {"s": "user", "b": "policy"}[key]}


def test_another_model_is_chosen(start: Spawn):
    """By its number; and once more, for the answer."""
    child = start(ask() | {"provider": "two", "review_response": "always"})
    child.expect(PROMPT)
    assert "Model (instead of first)" in child.before
    child.sendline("m")
    child.expect("number> ")
    assert "2  second" in child.before
    child.sendline("2")
    child.expect("It would be answered by second")
    child.expect(PROMPT)
    child.sendline("a")
    child.expect("before the server gets it")
    child.expect(PROMPT)
    assert "Model (instead of second)" in child.before
    child.sendline("t")
    child.expect("before the server gets it")
    child.expect(PROMPT)
    child.sendline("m")
    child.expect("number> ")
    child.sendline("9")
    child.expect("Nothing was changed.")
    child.expect(PROMPT)
    child.sendline("a")
    assert outcome(child)["content"]["text"] == "[echo] Describe a sweater"


def test_the_call_of_a_tool_is_shown(start: Spawn):
    """The server, the tool, what is said of it, and all arguments, inert; allowed for the session, it is asked once."""
    wanted = {"call": ["order", {"sku": "P-1\u202e"}]}
    child = start(wanted | {"one_by_one": True}, wanted)
    child.expect(PROMPT)
    for part in (
        "python catalogue.py",
        "order",
        "Orders ⟦U+001B⟧[2J something",
        '"sku": "P-1⟦U+202E⟧"',
        "cannot be seen",
    ):
        assert part in child.before
    child.sendline("g")
    child.expect("always> ")
    child.sendline("2")
    child.expect("how many")
    child.sendline("-")
    child.expect("RESULT true.*RESULT true")


def test_the_call_of_a_tool_is_denied(start: Spawn):
    """With a reason that stays here."""
    child = start({"call": ["order", {}]})
    child.expect(PROMPT)
    child.sendline("r")
    child.expect("reason")
    child.sendline("not now")
    child.expect("tell the model")
    child.sendline("no")
    assert outcome(child)["notes"] == ["denied: not now"]


def test_a_form_is_filled_in(start: Spawn):
    """From the question to the answer."""
    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    child = start({"elicit": form})
    child.expect(PROMPT)
    assert "Who?" in child.before
    child.sendline("a")
    child.expect("value> ")
    child.sendline("Ada")
    child.expect(PROMPT)
    child.sendline("a")
    assert outcome(child) == {"action": "accept", "content": {"name": "Ada"}}


def test_an_address_is_opened_with_consent(start: Spawn, tmp_path: Path):
    """Shown whole with its host apart; opened on one key, accepted on another."""
    opened = tmp_path / "opened"
    visit = {"message": "Pay", "mode": "url", "url": "https://shop.example/pay"}
    child = start({"elicit": visit, "opened": str(opened)})
    child.expect(PROMPT)
    assert "https://shop.example/pay" in child.before
    assert not opened.exists()
    assert "shop.example" in child.before
    child.sendline("o")
    child.expect(PROMPT)
    child.sendline("a")
    assert outcome(child) == {"action": "accept"}
    assert opened.read_text() == "https://shop.example/pay"


def test_an_answer_is_shown_before_it_goes(start: Spawn):
    """Approved as it is, or written anew."""
    child = start(ask() | {"review_response": "always"})
    child.expect(PROMPT)
    child.sendline("a")
    child.expect("before the server gets it")
    child.expect(PROMPT)
    assert "[echo] Describe a sweater" in child.before
    child.sendline("w")
    child.expect("single dot")
    child.send("Better.\n.\n")
    assert outcome(child)["content"]["text"] == "Better."


def test_a_terminal_that_is_given_is_available(tmp_path: Path):
    """Whether it can be opened shows when it is needed."""
    assert TerminalReviewer(terminal=str(tmp_path)).available
    assert msgspec.to_builtins(Host(reviewer=TerminalReviewer()).capabilities)["elicitation"]


def test_an_address_is_accepted_once_it_was_seen_whole(start: Spawn):
    """A long one is shown a screen at a time; whoever turns away before its end has not accepted it."""
    visit = {"message": "Pay", "mode": "url", "url": "https://bank.example@evil.example/?" + "x" * 5000 + "END"}
    child = start({"elicit": visit})
    child.expect("Host")
    child.expect("evil.example")
    for _ in range(3):
        child.expect("Enter shows more> ")
        assert PROMPT not in child.before
        child.sendline("")
    child.expect("END")
    child.expect(PROMPT)
    child.sendline("a")
    assert outcome(child) == {"action": "accept"}
    turned_away = start({"elicit": visit})
    turned_away.expect("Enter shows more> ")
    turned_away.sendeof()
    assert outcome(turned_away) == {"action": "cancel"}


def test_a_form_stops_its_call_and_blocks_its_server(start: Spawn):
    """As any other request; the next one is refused without a question."""
    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    child = start({"elicit": form, "one_by_one": True}, ask("second"))
    child.expect(PROMPT)
    assert "[s]" in child.before
    child.sendline("b")
    child.expect("reason")
    child.sendline("2")
    assert outcome(child) == {"action": "decline"}
    assert outcome(child)["data"] == {"reason": "policy"}


def test_a_required_choice_is_not_made_for_the_person(start: Spawn):
    """Enter alone answers nothing; a default is said to be the server's."""
    schema = {
        "type": "object",
        "properties": {"sure": {"type": "boolean"}, "how": {"type": "string", "enum": ["fast", "slow"]}},
        "required": ["sure", "how"],
    }
    child = start({"elicit": {"message": "Delete 3 old drafts?", "requestedSchema": schema}})
    child.expect(PROMPT)
    child.sendline("a")
    for answer in ("no", "2"):
        child.expect("value> ")
        child.sendline("")
        child.expect("What fits: ")
        child.expect("value> ")
        child.sendline(answer)
    child.expect(PROMPT)
    child.sendline("a")
    assert outcome(child) == {"action": "accept", "content": {"sure": False, "how": "slow"}}


def test_a_permission_can_be_taken_back(start: Spawn):
    """Within seconds; Enter lets it count at once."""
    child = start(ask() | {"undo": 60.0})
    child.expect(PROMPT)
    child.sendline("a")
    child.expect("u and Enter takes it back")
    child.sendline("u")
    child.expect(PROMPT)
    child.sendline("a")
    child.expect("u and Enter takes it back")
    child.sendline("")
    assert outcome(child)["content"]["text"] == "[echo] Describe a sweater"


def test_what_does_not_fit_is_folded(start: Spawn):
    """So that the prompt, its size and the keys fit 80 by 24; a key shows all of it."""
    child = start(ask("word " * 900 + "its end", system_prompt="You write for a shop. " * 99), columns=80)
    child.expect(PROMPT)
    assert "You write for a shop." in child.before
    assert "word word" in child.before
    assert "more characters. f shows all." in child.before
    assert "its end" not in child.before
    child.sendline("a")
    child.expect("f shows all of it, then decide")
    child.sendline("f")
    child.expect("its end")
    child.expect(PROMPT)
    child.sendline("d")
    assert outcome(child)["data"] == {"reason": "user"}


DESCRIPTION = "Orders what is meant. " * 500 + "its end"


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        (ask(tools=[Tool(name="order", input_schema={"type": "object"}, description=DESCRIPTION)]), "ag"),
        ({"call": ["order", {"sku": "P-1"}], "says": DESCRIPTION}, "age"),
    ],
)
def test_a_description_that_is_folded_is_opened_before_anything_passes(start: Spawn, asked: dict, keys: str):
    """Of a tool that the model gets, and of one that is called; a call is not run with edited arguments either."""
    child = start(asked)
    child.expect(PROMPT)
    assert "more characters. f shows all." in child.before
    assert "its end" not in child.before
    for key in keys:
        child.sendline(key)
        child.expect("f shows all of it, then decide")
    child.sendline("f")
    child.expect("its end")
    child.expect(PROMPT)
    child.sendline("a")
    child.expect("RESULT (true|.*echo)")


def test_the_terminal_speaks_the_language_of_its_locale(start: Spawn, monkeypatch):
    """Keys and what is asked, by the shared words."""
    # Of messages alone: where the machine lacks this locale, Python would read the names of its own folders as ASCII.
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setenv("LC_CTYPE", "C.UTF-8")
    monkeypatch.setenv("LC_MESSAGES", "zh_CN.UTF-8")
    child = start(ask())
    child.expect("决定> ")
    assert "服务器想使用您的模型" in child.before
    assert "[a] 批准" in child.before
    child.sendline("?!")
    child.expect("请输入 a, ")
    child.expect("决定> ")
    child.sendline("d")
    assert outcome(child)["data"] == {"reason": "user"}


async def test_a_person_hears_what_became_of_the_answer():
    """Handed over, or too late and why; behind the question that is being asked, and once."""
    with screenful() as person:
        reviewer = TerminalReviewer(terminal=person.path, pause=0.0, color=False, undo=0.0, language="en")
        host = Host(reviewer=reviewer)
        for number, why, said in [
            ("1", None, "Handed over to the server."),
            ("2", "closed", "Too late: it did not reach the server."),
        ]:
            asked = asyncio.create_task(host(request(), origin(number)))
            await person.expect(PROMPT)
            person.type("a\n")
            await asked
            reviewer.handed_over(origin(number), why)
            assert "catalogue.py · describe" in await person.expect(said)
        asked = [asyncio.create_task(host(request(), origin(number))) for number in ("3", "4")]
        await person.expect(PROMPT)
        person.type("a\n")
        await person.expect(PROMPT)
        recording = host.handed_over(origin("3"))
        assert recording is not None
        await recording
        assert host.handed_over(origin("3")) is None
        person.type("d\n")
        await person.expect("Handed over to the server.")
        with pytest.raises(Rejected):
            await asked[1]
        assert host.handed_over(origin("4")) is None
        person.read_rest()
        assert person.seen.count("Handed over to the server.") == 2
