"""``antiphon review``: list, show, approve, deny, edit and answer questions that wait for a person.

Owns the options. The questions are in the store, whichever process asked them.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Literal

import click

from antiphon.cli.commands.review import decide, queue_list
from antiphon.cli.commands.review.terminal_queue import decide_in_terminal
from antiphon.cli.options import Browse, Json, Port, ReviewGroup
from antiphon.cli.output.formats import Failed, parse_future_time, parse_money, print_json, write_line
from antiphon.cli.store import StoreOptions, open_chosen_store, ring_for_questions
from antiphon.errors import ConfigError
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.decisions import MOST_USES
from antiphon.host.review.question import Question
from antiphon.host.review.review import UNBOUNDED, Decision, Regenerate, ReviewItem, Terms
from antiphon.web.page_reviewer import load_opener
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode_value

commands = ReviewGroup(
    help="Decide what waits for you, from any terminal.\n\n"
    "With --web: on a page in the browser. Without a command: queue at a terminal, else list. A host that uses the "
    "same store waits for your decision; if several decide, the first decision counts. An ID may be shortened to as "
    "much of its beginning as is unambiguous. ID:HASH, which show prints, and list in a pipe, means the request "
    "exactly as it was printed, and is refused if that has changed. The commands that let something pass (approve, "
    "edit, answer, regenerate) show it first and ask you. A script cannot be asked, so it has to give ID:HASH."
)

_MAX_PASSWORD = 1_000
"""Most characters of a password: the field on the page takes no more."""

commands.command("queue")(decide_in_terminal)

Id = Annotated[str, "ID: The review's ID, or as much of its beginning as is unambiguous; or ID:HASH."]
Ids = Annotated[list[str], "ID...: IDs of the reviews. Either all of them are decided or, if one cannot be, none."]
Scope = Annotated[
    Literal["once", "call", "session", "always"],
    "--scope: What is approved: this request once, or also similar ones: for the rest of the call, for the rest "
    "of the session, or always.",
]
Model = Annotated[str | None, "--model NAME: Use this model instead: one of those that antiphon review show lists."]


@commands.command()
async def web(
    *, port: Port = 0, host: str = "127.0.0.1", remote: bool = False, browse: Browse = True, where: StoreOptions
) -> None:
    """Decide in the browser; also: antiphon review --web.

    Prints an address that opens the page once, in one browser; the page's settings make further ones. Only this machine
    can reach it. Over SSH, forward the port: ssh -L 8700:127.0.0.1:8700, with --port 8700 here.

    Usage:
        --host ADDRESS: Address to serve the page at.
        --remote: Allow a --host that others can reach. Nothing is encrypted.
    """
    open_page = load_opener()
    settings = where.settings
    async with (
        open_chosen_store(where, make=True) as store,
        open_page(store, host=host, port=port, config=settings, remote=remote, browse=browse),
        ring_for_questions(store, wanted=settings.notify.bell),
    ):
        await asyncio.get_running_loop().create_future()


@commands.command()
async def password() -> None:
    """Ask for a password, and print its hash: what the file of people has for one who signs in on the page.

    Without a terminal it is the first line of standard input.
    """
    from antiphon.web.password_sign_in import hash_password

    if sys.stdin.isatty():
        typed = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        typed = sys.stdin.readline(_MAX_PASSWORD + 2).rstrip("\r\n")
    if not 12 <= len(typed) <= _MAX_PASSWORD:
        raise Failed(f"a password has 12 to {_MAX_PASSWORD} characters")
    write_line(hash_password(typed))


@commands.command("list")
async def list_(
    *,
    follow: Annotated[bool, "--watch, -w: Go on listing new requests, until Ctrl-C."] = False,
    limit: Annotated[int, click.IntRange(1, queue_list.MOST)] = 1000,
    after: str | None = None,
    as_json: Json = False,
    where: StoreOptions,
) -> None:
    """List what waits, by calls; usual in a pipe.

    In a pipe, with --json and with --watch it prints one line for each request; with --watch, another line when one is
    decided or has ended. If more wait than are listed, standard error says how many, and how to list the next ones.

    Usage:
        --limit, -n N: How many, the oldest first.
        --after ID: Only requests that came after this one.
    """
    bell = follow and where.settings.notify.bell
    async with open_chosen_store(where, make=follow) as store, ring_for_questions(store, wanted=bell):
        await (
            queue_list.watch_queue(store, as_json=as_json)
            if follow
            else queue_list.list_pending(store, limit, after, as_json=as_json)
        )


@commands.command()
async def show(id: Id, *, as_json: Json = False, where: StoreOptions) -> None:
    """Show exactly what will be sent, and all there is to know.

    What the host changed in it, risks, tools, the model with its scores, costs, what is left, and for how long it
    waits. What stands behind a bar was written by the server.
    """
    async with open_chosen_store(where) as store:
        question = await queue_list.find_question(store, id)
    if as_json:
        print_json(question)
        return
    for row in queue_list.draw_question(question, queue_list.make_layout(), time.time()):
        write_line(row)


@commands.command()
async def approve(
    ids: Ids,
    *,
    scope: Scope = "once",
    uses: Annotated[int | None, click.IntRange(1, MOST_USES)] = None,
    up_to: str | None = None,
    model: Model = None,
    end: Annotated[str | None, "--until WHEN: With --scope: until when it holds: 30m, 8h, 7d, or a date."] = None,
    unbounded: bool = False,
    arguments: str | None = None,
    labels: str | None = None,
    when: str | None = None,
    told: decide.DecisionOptions,
) -> None:
    """Approve requests, and answers that wait to be sent.

    A --scope without a bound holds for 10 requests and $0.50. If a bound is given (--uses, --up-to, --until), it takes
    the place of both.

    Exit code 1 if one was decided before, or nobody waits for it any more.

    Usage:
        --uses N: With --scope: how many more requests are permitted.
        --up-to $X: With --scope: how much those may cost together, in US dollars.
        --unbounded: With --scope: set no bounds, in place of the usual 10 requests and $0.50.
        --labels LABELS: For a tool that is used the first time: private,untrusted,outbound or some of them, or none.
        --when CONDITION: With --scope, for a tool: only calls that meet this condition, as rules have them (CEL).
        --arguments JSON: For the call of a tool: run it with these arguments instead. The model is told.
    """
    bounds = Terms(uses=uses, money=parse_money("--up-to", up_to), until=parse_future_time(end, time.time()))
    if scope == "once" and (unbounded or bounds.named):
        raise ConfigError("--uses, --up-to, --until and --unbounded bound a --scope: call, session or always")
    if unbounded and bounds.named:
        raise ConfigError("--unbounded is without --uses, --up-to and --until")
    if when is not None and scope == "once":
        raise ConfigError("--when is for a --scope: call, session or always")
    terms = UNBOUNDED if unbounded else bounds if bounds.named else None
    if arguments is not None:
        if scope != "once" or model is not None:
            raise ConfigError("--arguments changes one call: leave --scope and --model out")
        edited = partial(decide.make_edited_call, text=arguments)
        return await _decide_questions(ids, edited, "approved as edited", told, verb="approve")
    word = "approved" if scope == "once" else f"approved, and its like (--scope {scope})"
    approval = partial(decide.make_approval, scope=scope, terms=terms, model=model, labels=labels, when=when)
    return await _decide_questions(ids, approval, word, told, verb="approve")


@commands.command()
async def deny(
    ids: Ids,
    *,
    reason: str | None = None,
    tell: bool = False,
    respond: str | None = None,
    reach: Literal["once", "call", "server"] = "once",
    told: decide.DecisionOptions,
) -> None:
    """Refuse requests.

    Exit code 1 if one was decided before, or nobody waits for it any more. Servers that were refused with
    --reach server are listed by antiphon policy blocks.

    Usage:
        --reason TEXT: Why, for the audit.
        --tell: Tell the reason as well: to the server or, for the call of a tool, to the model.
        --respond TEXT: For the call of a tool: do not run it, and give this text as its result.
        --reach: What is refused: this request once, also the rest of its call, or everything that its server asks from
            now on.
    """
    if tell and not reason:
        raise ConfigError("--tell says the reason to the server: give one with --reason")
    if respond is not None:
        if reason or reach != "once":
            raise ConfigError("--respond answers one call: leave --reason and --reach out")
        return await _decide_questions(ids, partial(decide.answer_of, words=[respond]), "answered", told, verb="answer")
    word = "denied" if reach == "once" else f"denied (--reach {reach})"
    return await _decide_questions(ids, partial(decide.make_denial, reason=reason, reach=reach, tell=tell), word, told)


@commands.command()
async def regenerate(ids: Ids, *, model: Model = None, told: decide.DecisionOptions) -> None:
    """Ask the model for another answer, before one is sent.

    Exit code 1 if one was decided before, or nobody waits for it any more.
    """
    return await _decide_questions(
        ids, lambda question: Regenerate(model=model), "to be answered once more", told, verb="regenerate"
    )


@commands.command()
async def edit(id: Id, *, yes: bool = False, model: Model = None, told: decide.DecisionOptions) -> None:
    """Change a request in your editor, and send the changed one.

    The editor is $VISUAL or $EDITOR. You see the difference first; a mistake opens the editor again.

    Usage:
        --yes: Send what the editor leaves, without asking again.
    """
    async with open_chosen_store(told) as store:
        [question] = await queue_list.find_pending(store, [id])
        item = question.item
        if not isinstance(item, ReviewItem) or "edit" not in item.choices:
            raise Failed(f"{question.id}: only a request that a model will answer can be edited")
        if yes and not queue_list.is_named_as_listed(question, [id]):
            raise ConfigError(decide.REMEDY.format(id=question.id))
        decision = await decide.edit_request(question, item, yes=yes, model=model)
        await decide.decide_questions(store, [question], [decision], "approved as edited", told)


@commands.command()
async def answer(
    id: Id, words: list[str] | None = None, *, defaults: bool = False, told: decide.DecisionOptions
) -> None:
    """Answer yourself: nothing is sent to a model.

    A form of a server is answered as the arguments of a tool are written: key=value, key:=JSON, or a JSON object.
    Nothing that the server suggests is taken unless you give it or say --defaults.

    Usage:
        [TEXT | - | KEY=VALUE...]: The answer, - for standard input, or the fields of a form. Without it you are asked.
        --defaults: For a form: accept the server's suggestions for the fields that you leave out.
    """
    text = decide.read_answer(words or [])

    async with open_chosen_store(told) as store:
        [question] = await queue_list.find_pending(store, [id])
        if text or defaults:
            decision = decide.answer_of(question, text, defaults=defaults)
            await decide.agree_in_person([question], [id], "send this answer")
        else:
            decision = await decide.fill_in_person(question)
        word = "answered"
        if defaults and isinstance(decision, ElicitResult):
            word += f" {inert_line(encode_value(decision.content).decode())}"
        await decide.decide_questions(store, [question], [decision], word, told)


async def _decide_questions(
    ids: list[str],
    decision: Callable[[Question], Decision | ElicitResult | Awaitable[Decision]],
    word: str,
    told: decide.DecisionOptions,
    *,
    verb: str = "",
) -> None:
    """Decide. ``verb`` names an action that allows something, which is shown first; a refusal is not."""
    async with open_chosen_store(told) as store:
        questions = await queue_list.find_pending(store, ids)
        made = [decision(question) for question in questions]
        decisions = [await each if isinstance(each, Awaitable) else each for each in made]
        if verb:
            await decide.agree_in_person(questions, ids, verb)
        await decide.decide_questions(store, questions, decisions, word, told)
