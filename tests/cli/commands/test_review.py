"""``antiphon review``: a request waits in one process, and is decided from another one."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from antiphon.cli.commands.review.queue_list import format_listed_id
from antiphon.errors import Rejected
from antiphon.host import Answer, digest
from antiphon.host.checks.redact import Redaction
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.host.review.question import PendingCall
from antiphon.host.review.review import ToolItem
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Round
from antiphon.wire.sampling import ModelPreferences
from antiphon.wire.tools import CallToolRequestParams
from tests.cli.conftest import Cli
from tests.cli.program import COMMAND, ROOT, SHOP, environment, in_process
from tests.cli.waiting import Waiting, waiting
from tests.host.asks import origin, request

HOSTILE = "Hello\x1b]0;owned\x07 \x1b[2J\u202eevil\u2066 \U000e0041"


def catalogue() -> ModelCatalogue:
    """Make two models that differ in speed."""
    models = [
        Model(
            name=name,
            provider="echo",
            model=name,
            context=10_000,
            inputs=("text",),
            tools=True,
            speed=speed,
            intelligence=3,
            price=ModelPrice(input=Decimal(1), output=Decimal(10)),
        )
        for name, speed in (("slow", 1), ("fast", 5))
    ]
    return ModelCatalogue(tuple(models))


# --- list and show ----------------------------------------------------------------------------------------------------


async def test_what_waits_is_listed(desk: Waiting):
    """A line for each: id, state, kind, seconds, who for what, how it begins."""
    await desk.ask()
    question = await desk.pending()
    done = await desk.run("review")
    listed, state, kind, left, who, gist = done.out.strip().split("\t")
    id = listed.partition(":")[0]
    assert (id, state, kind) == (question.id, "pending", "request")
    assert 500 < int(left) <= 600
    assert (who, gist) == ('python catalogue.py: tools/call describe {"sku":7}', "Describe a sweater")


async def test_a_call_whose_caller_has_left_is_not_said_to_have_lost_its_process(desk: Waiting):
    """It asks again later, and may well be running."""
    with PendingCall(0.0, 600.0), pytest.raises(Rejected, match="waits for approval"):
        await desk.host.confirm(CallToolRequestParams.of("pay", {"sum": 5}), origin("1"))
    listed = await desk.named()
    shown = await desk.run("review", "show", listed.partition(":")[0])
    assert "nobody waits now: a decision is kept for when it is asked again" in shown.out
    done = await desk.run("review", "approve", listed)
    assert done.out.endswith(": approved; nobody waits for it now: it is kept for when it is asked again\n")


async def test_a_list_has_pages(desk: Waiting):
    """A list that leaves out questions says how many wait, and how to list the next ones."""
    for text in ("one", "two", "three"):
        await desk.ask(request(text))
    ids = [question.id for question in await desk.queue.pending()]
    first = await desk.run("review", "list", "--limit", "2")
    assert [line[:16] for line in first.out.splitlines()] == ids[:2]
    assert first.err == f"2 of 3 that wait; the next ones: antiphon review list --after {ids[1]}\n"
    second = await desk.run("review", "list", "--limit", "2", "--after", ids[1])
    assert [line[:16] for line in second.out.splitlines()] == ids[2:]
    assert second.err == "1 of 3 that wait\n"
    assert (await desk.run("review", "list")).err == ""


async def test_nothing_waits(desk: Waiting):
    """Into a pipe that is nothing at all."""
    await desk.queue.pending()
    assert (await desk.run("review", "list"))[:2] == (0, "")


async def test_the_list_as_json_has_what_a_script_decides_by(desk: Waiting):
    """One object a line."""
    await desk.ask(request(HOSTILE), call=None)
    [listed] = (await desk.run("review", "--json")).objects
    assert (listed["kind"], listed["waited_for"], listed["target"]) == ("request", True, "python catalogue.py")
    assert listed["call"] is None
    assert len(listed["warnings"]) == 2
    assert "approve" in listed["choices"]


async def test_a_request_is_shown_as_it_will_be_sent(cli: Cli, tmp_path: Path):
    """With all that is known of it, and whatever the host changed in it."""
    async with waiting(tmp_path / "host.db", cli, redaction=Redaction(request="mask")) as desk:
        await desk.ask(request("Use AKIAIOSFODNN7EXAMPLE", system_prompt="Be kind", include_context="allServers"))
        question = await desk.pending()
        shown = (await desk.run("review", "show", question.id[:6])).out
        assert "Be kind" in shown
        assert "- includeContext: allServers" in shown
        assert "What was changed" in shown
        assert "- messages[0] user: Use AKIAIOSFODNN7EXAMPLE" in shown
        assert "+ messages[0] user: Use " in shown
        assert re.search(r" ▪ (10:00|9:\d\d) · catalogue\.py", shown)
        assert question.id in shown


async def test_the_model_is_shown_with_scores_and_costs(cli: Cli, tmp_path: Path):
    """Low, likely, worst, and what is left."""
    async with waiting(tmp_path / "host.db", cli, provider=Models(catalogue(), {})) as desk:
        await desk.ask(request(max_tokens=1000, model_preferences=ModelPreferences(speed_priority=1)))
        shown = (await desk.run("review", "show", (await desk.pending()).id)).out
        assert "fast: the best score by speed 1" in shown
        assert "at worst $0.01" in shown
        assert " left      $1.00\n" in shown
        assert all(word in shown for word in ("slow", "intelligence", "0.0000", "1.0000"))


@pytest.mark.parametrize(
    "words", [["review"], ["review", "--json"], ["review", "show", ""], ["review", "show", "", "--json"]]
)
async def test_hostile_text_is_inert(words: list[str], desk: Waiting):
    """Whatever a terminal would obey, or an eye would miss, is marked or escaped."""
    await desk.ask(request(HOSTILE, system_prompt=HOSTILE))
    id = (await desk.pending()).id
    done = await desk.run(*(word or id for word in words))
    assert done.code == 0
    assert not set("\x1b\x07\u202e\u2066\U000e0041") & set(done.out)
    assert "owned" in done.out


async def test_the_raw_question_is_printed_as_json(desk: Waiting):
    """All of it, as it travels."""
    await desk.ask()
    [shown] = (await desk.run("review", "show", (await desk.pending()).id, "--json")).objects
    assert shown["item"]["params"]["messages"][0]["content"]["text"] == "Describe a sweater"
    assert shown["item"]["params"]["maxTokens"] == 100


async def test_the_call_of_a_tool_is_shown_and_approved(desk: Waiting):
    """With its arguments; what lets it pass is the same command."""
    params = CallToolRequestParams.of("pay", {"amount": 7})
    item = ToolItem(origin=origin(), params=params, choices=frozenset({"approve", "deny"}), expires_in=60)
    asked = await desk.kept(desk.queue.confirm(item))
    id = (await desk.pending()).id
    assert '"amount": 7' in (await desk.run("review", "show", id)).out
    for mistyped in ("7", '{"amount": NaN}', '{"amount": %s}' % ("[" * 60_000 + "]" * 60_000)):
        done = await desk.run("review", "approve", await desk.named(), "--arguments", mistyped)
        assert (done.code, done.err.startswith(f"antiphon: {id}: ")) == (2, True)
    assert (await desk.run("review", "approve", await desk.named())).code == 0
    assert (await asked).digest == digest(params)


# --- decide -----------------------------------------------------------------------------------------------------------


async def test_an_approval_in_another_process_lets_it_through(desk: Waiting):
    """The host goes on, and the record says who it was."""
    asked = await desk.ask()
    question = await desk.pending()
    done = await desk.elsewhere("review", "approve", f"{question.id[:6]}:{question.hash}", "--by", "ada")
    assert done == (0, f"{question.id}: approved\n", "")
    assert (await asked).text == "one"
    assert ("review", "approve", "ada") in [
        (entry.record.step, entry.record.outcome, entry.record.by) async for entry in desk.host.audit.entries()
    ]


async def test_a_call_waits_for_another_terminal(cli: Cli, tmp_path: Path):
    """The whole way: server, call, question, decision and answer, each in a process of its own."""
    place = str(tmp_path / "host.db")
    config = tmp_path / "antiphon.toml"
    config.write_text('[models.echo]\nprovider = "echo"\nmodel = "echo"\n')
    options = ["--config", str(config), "--store", place, "--review", "queue"]
    words = [*COMMAND, "call", SHOP, "describe", "product=hat", *options]
    call = await asyncio.create_subprocess_exec(*words, stdout=-1, stderr=-1, cwd=ROOT, env=environment())
    watching = [*COMMAND, "review", "--watch", "--json", "--store", place]
    watch = await asyncio.create_subprocess_exec(*watching, stdout=-1, cwd=ROOT, env=environment())
    come = json.loads(await watch.stdout.readline())
    assert (come["gist"], come["call"]["name"], come["model"]) == ("Describe hat", "describe", "echo")
    done = await asyncio.to_thread(in_process, "review", "approve", f"{come['id']}:{come['hash']}", "--store", place)
    assert done.code == 0
    assert (await call.communicate())[0] == b"echo: [echo] Describe hat\n"
    watch.send_signal(signal.SIGINT)
    await watch.communicate()
    assert "Handed over to the server." in in_process("review", "show", come["id"], "--store", place).out


async def test_the_second_is_told_who_was_first(desk: Waiting):
    """Whether it waits, is carried out, or over."""
    asked = await desk.ask()
    id = (await desk.pending()).id
    await desk.queue.decide(id, Answer(result="mine"), hash=(await desk.queue.get(id)).hash, by="bob")
    done = await desk.run("review", "approve", id)
    assert (done.code, done.err) == (1, f"antiphon: {id}: already decided by bob\n")
    assert (await asked).text == "mine"
    assert (await desk.run("review", "deny", id)).err == f"antiphon: {id}: already decided by bob\n"
    assert "already decided by bob" in (await desk.run("review", "show", id)).out


async def test_what_was_withdrawn_cannot_be_decided(desk: Waiting):
    """And says so."""
    asked = await desk.ask()
    id = (await desk.pending()).id
    asked.cancel()
    await asyncio.wait([asked])
    done = await desk.run("review", "approve", id)
    assert done.code == 1
    assert "was withdrawn" in done.err


async def test_a_denial_stays_on_this_side(desk: Waiting):
    """With its reason."""
    asked = await desk.ask()
    assert (await desk.run("review", "deny", (await desk.pending()).id, "--reason", "too long")).code == 0
    with pytest.raises(Rejected) as refused:
        await asked
    assert refused.value.data == {"reason": "user"}
    assert "too long" in refused.value.__notes__[0]


async def test_a_round_is_decided_together(desk: Waiting):
    """All or none."""
    first = await desk.ask(round=Round(n=1, max=4))
    one = await desk.pending()
    second = await desk.ask(request("Coat?"), round=Round(n=1, max=4))
    two = await desk.pending()
    assert (await desk.run("review", "approve", one.id, "nothing")).code == 1
    assert len(await desk.queue.pending()) == 2
    assert (await desk.run("review", "approve", format_listed_id(one), format_listed_id(two))).code == 0
    assert sorted([(await first).text, (await second).text]) == ["one", "two"]


async def test_an_approval_may_reach_further(desk: Waiting):
    """Its like passes without asking, within its bounds, until it is revoked."""
    asked = await desk.ask()
    words = ["--scope", "always", "--uses", "2", "--up-to", "$1.50", "--until", "7d"]
    done = await desk.run("review", "approve", await desk.named(), *words)
    assert "--scope always" in done.out
    await asked
    [given] = await desk.host.grants.all()
    assert (given.grant.scope, given.grant.terms.uses, given.grant.terms.money) == ("always", 2, 1_500_000_000)
    assert (await desk.host(request(), origin("9"))).text == "two"


@pytest.mark.parametrize(
    ("words", "bounds"), [([], (10, 500_000_000)), (["--unbounded"], (None, None)), (["--uses", "3"], (3, None))]
)
async def test_an_approval_that_names_no_bound_has_the_usual_ones(words: list[str], bounds, desk: Waiting):
    """Unless it says by name that there is to be none."""
    asked = await desk.ask()
    done = await desk.run("review", "approve", await desk.named(), "--scope", "session", *words)
    assert done.code == 0
    await asked
    [given] = await desk.host.grants.all()
    assert (given.grant.terms.uses, given.grant.terms.money, given.grant.terms.until) == (*bounds, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["approve", "ID", "--uses", "2"], "bound a --scope"),
        (["approve", "ID", "--unbounded"], "bound a --scope"),
        (["approve", "ID", "--scope", "always", "--uses", "2", "--unbounded"], "--unbounded is without"),
        (["approve", "ID", "--scope", "always", "--up-to", "much"], "not a sum in dollars"),
        (["approve", "ID", "--scope", "always", "--until", "2001-01-01"], "is over"),
        (["approve", "ID", "--scope", "always", "--until", "soon"], "is not a time"),
        (["approve"], "Missing argument"),
        (["approve", "ID"], "review show"),
        (["answer", "ID", "Warm"], "review show"),
        (["edit", "ID", "--yes"], "review show"),
        (["answer", "ID", " "], "an empty answer"),
        (["answer", "ID"], "no terminal"),
        (["nonsense"], "No such command"),
    ],
)
async def test_wrong_usage_decides_nothing(words: list[str], message: str, desk: Waiting):
    """And exits with 2."""
    await desk.ask()
    id = (await desk.pending()).id
    done = await desk.run("review", *(id if word == "ID" else word for word in words))
    assert done.code == 2
    assert message in done.err
    assert len(await desk.queue.pending()) == 1


async def test_an_id_that_is_not_clear_decides_nothing(desk: Waiting):
    """The possible ones are named. Of seventeen two begin alike."""
    for number in range(17):
        await desk.ask(call=f"call-{number}")
    ids = [question.id for question in await desk.queue.pending()]
    [(letter, count), *_] = Counter(id[0] for id in ids).most_common()
    done = await desk.run("review", "approve", letter)
    assert (done.code, done.err.count(", ")) == (2, count - 1)
    assert (await desk.run("review", "approve", "")).code == 1
    assert len(await desk.queue.pending()) == 17


async def test_a_person_answers(desk: Waiting):
    """In the words given; nothing is sent to a model."""
    asked = await desk.ask()
    assert (await desk.run("review", "answer", await desk.named(), "Warm", "wool.")).code == 0
    result = await asked
    assert result.text == "Warm wool."


async def test_an_answer_comes_from_standard_input(desk: Waiting):
    """Of any length, several lines."""
    asked = await desk.ask()
    words = [*COMMAND, "review", "answer", await desk.named(), "-", "--store", desk.place]
    done = await asyncio.to_thread(
        subprocess.run, words, input="One\nTwo\n", text=True, capture_output=True, env=environment(), check=False
    )
    assert (done.returncode, (await asked).text) == (0, "One\nTwo")


async def test_the_name_of_a_field_writes_no_line_of_its_own(desk: Waiting):
    """An error that quotes a server has one beginning of ours, and the server's lines are set in."""
    name = "who\nantiphon: all is decided\x1b[2J"
    await desk.ask_person(ElicitRequestParams.form("Who?", {"properties": {name: {"type": "string", "default": "x"}}}))
    done = await desk.run("review", "approve", (await desk.pending()).id)
    first, *rest = done.err.splitlines()
    assert first.endswith("the form needs who")
    assert all(line.startswith("  antiphon: all is decided⟦U+001B⟧[2J") for line in rest)


async def test_a_form_is_filled_in(desk: Waiting):
    """As the arguments of a tool are; what is missing or wrong is told, and the question stays."""
    asked = await desk.ask_person()
    id = (await desk.pending()).id
    assert "name: string, needed" in (await desk.run("review", "show", id)).out
    assert "the form needs name" in (await desk.run("review", "approve", id)).err
    id = await desk.named()
    assert (await desk.run("review", "answer", id, "size=3")).code != 0
    assert (await desk.run("review", "answer", id, "age=3")).code == 1
    assert (await desk.run("review", "answer", id, "name=Ada", "age=3")).code == 0
    assert await asked == ElicitResult(action="accept", content={"age": 3, "name": "Ada"})


@pytest.mark.parametrize(
    ("words", "content"),
    [
        (["name=Ada"], None),
        (['{"name": "Ada"}'], None),
        (["name=Ada", "--defaults"], {"age": 7, "name": "Ada"}),
        (["name=Ada", "age:=null"], {"name": "Ada"}),
    ],
)
async def test_nothing_that_a_server_suggests_is_taken_unasked(words: list[str], content, desk: Waiting):
    """Such a field is given, left out by name, or taken by ``--defaults``, which says what it took."""
    asked = await desk.ask_person()
    done = await desk.run("review", "answer", await desk.named(), *words)
    if content is None:
        assert (done.code, "the server suggests age:=7" in done.err, "--defaults" in done.err) == (2, True, True)
        assert (await desk.pending()).state == "pending"
    else:
        assert done.code == 0
        assert ('"age":7' in done.out) == ("--defaults" in words)
        assert await asked == ElicitResult(action="accept", content=content)


async def test_an_address_is_visited_or_not(desk: Waiting):
    """Approve says that the person has, deny that the person will not."""
    address = ElicitRequestParams(mode="url", message="Pay", url="https://example.com/pay", elicitation_id="1")
    asked = await desk.ask_person(address)
    id = (await desk.pending()).id
    assert "an address to visit" in (await desk.run("review", "answer", id, "x")).err
    assert (await desk.run("review", "approve", f"{id}:{(await desk.pending()).hash[:12]}")).code == 0
    assert (await asked).action == "accept"
    asked = await desk.ask_person(address)
    assert (await desk.run("review", "deny", (await desk.pending()).id)).code == 0
    assert (await asked).action == "decline"


async def test_an_answer_of_a_model_is_reviewed(cli: Cli, tmp_path: Path):
    """Shown as it will be handed out, and handed out, made again or replaced."""
    async with waiting(tmp_path / "host.db", cli, review="never", review_response="always") as desk:
        asked = await desk.ask()
        id = await desk.named()
        assert "The model's answer, before the server gets it" in (await desk.run("review", "show", id)).out
        assert (await desk.run("review", "approve", id)).code == 0
        assert (await asked).text == "one"


async def test_an_answer_is_made_once_more(cli: Cli, tmp_path: Path):
    """And that one is reviewed as well."""
    async with waiting(tmp_path / "host.db", cli, review="never", review_response="always") as desk:
        asked = await desk.ask()
        first = await desk.named()
        assert "to be answered once more" in (await desk.run("review", "regenerate", first)).out
        async for _ in desk.queue.changes():
            if waits := await desk.queue.pending():
                break
        assert waits[0].item.result.text == "two"
        assert (await desk.run("review", "approve", format_listed_id(waits[0]))).code == 0
        assert (await asked).text == "two"


async def test_another_model_is_taken(cli: Cli, tmp_path: Path):
    """One of those that are named; no other."""
    async with waiting(tmp_path / "host.db", cli, provider=Models(catalogue(), {})) as desk:
        asked = await desk.ask(request(model_preferences=ModelPreferences(speed_priority=1)))
        id = await desk.named()
        done = await desk.run("review", "approve", id, "--model", "other")
        assert (done.code, "other is not among the models to choose from" in done.err) == (1, True)
        assert (await desk.run("review", "approve", id, "--model", "slow")).code == 0
        await asked
        assert {record.model for record in desk.host.audit.records() if record.step == "settled"} == {"slow"}


async def test_a_script_decides_what_it_has_listed_and_nothing_else(desk: Waiting):
    """A list in a pipe names what it shows; with another hash nothing is decided, with the right one it is."""
    asked = await desk.ask()
    listed = (await desk.run("review")).out.split("\t")[0]
    id, _, hash = listed.partition(":")
    other = await desk.run("review", "approve", f"{id}:{'0' * len(hash)}")
    assert (other.code, "not what was listed any more" in other.err) == (1, True)
    assert (await desk.pending()).id == id
    assert (await desk.run("review", "approve", listed)).code == 0
    assert (await asked).text == "one"


async def test_a_form_is_denied_for_its_call_and_with_a_reason(desk: Waiting):
    """As anything else; only where the answer has room for it can the server be told."""
    asked = await desk.ask_person()
    id = (await desk.pending()).id
    told = await desk.run("review", "deny", id, "--reason", "no", "--tell")
    assert (told.code, "no room for a reason" in told.err) == (2, True)
    assert (await desk.run("review", "deny", id, "--reason", "no", "--reach", "call")).code == 0
    assert (await asked).action == "decline"


async def test_the_reason_of_a_denial_is_told_to_the_server_on_demand(desk: Waiting):
    """In the error that answers a sampling request."""
    asked = await desk.ask()
    nothing = await desk.run("review", "deny", (await desk.pending()).id, "--tell")
    assert nothing.code == 2
    await desk.run("review", "deny", (await desk.pending()).id, "--reason", "too long", "--tell")
    with pytest.raises(Rejected) as refused:
        await asked
    assert refused.value.data == {"reason": "user", "note": "too long"}


async def test_a_block_on_the_command_line_withdraws_what_waits(desk: Waiting):
    """Decided in a process of its own; what else that server asked is over, and says why."""
    first = await desk.ask()
    one = (await desk.pending()).id
    second = await desk.ask()
    two = (await desk.pending()).id
    assert (await desk.elsewhere("review", "deny", one, "--reach", "server")).code == 0
    for asked in (first, second):
        with pytest.raises(Rejected):
            await asked
    late = await desk.run("review", "approve", two)
    assert (late.code, "its server is blocked" in late.err) == (1, True)


async def test_show_says_which_values_fit(desk: Waiting):
    """In the words of page and terminal: a script learns the bounds before its answer is refused."""
    many = {"type": "integer", "minimum": 1, "maximum": 1_234_567}
    form = {"properties": {"many": many, "note": {"type": "string"}}, "required": ["many"]}
    await desk.ask_person(ElicitRequestParams.form("How many?", form))
    shown = (await desk.run("review", "show", await desk.named())).out
    assert "many: integer (a whole number, at least 1, at most 1234567), needed" in shown
    assert "note: string, may be left out" in shown
