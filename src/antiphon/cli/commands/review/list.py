"""The questions that wait for a person: listed once, or a line for each as it comes."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import sys
import time
from typing import Any

from antiphon.cli.commands.review import queue_list
from antiphon.cli.commands.review.find import find_question, format_listed_id
from antiphon.cli.output.formats import is_terminal, print_json, write_line
from antiphon.host.checks.form_fields import list_suggestions
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.question import Question
from antiphon.host.review.queue import Queue
from antiphon.host.review.review import ElicitItem, ReviewItem
from antiphon.host.store import Store
from antiphon.host.terminal.console import Layout

_TICK = 0.5
"""Seconds between two reads; shorter ones would not be noticed."""


def make_layout() -> Layout:
    """Return the layout for standard output: as wide as the terminal; no colours and no width otherwise."""
    if not is_terminal():
        return Layout(columns=0)
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in (None, "", "dumb")
    return Layout(columns=shutil.get_terminal_size().columns, color=not plain)


async def list_pending(store: Store, limit: int, after: str | None, *, as_json: bool) -> None:
    """List once: grouped by call on a terminal, else one line per question; ``left`` if its process has ended.

    If more questions wait than are listed, standard error says how many, and how to list the next ones.
    """
    queue = Queue(store)
    last = None if after is None else (await find_question(store, after)).id
    questions, now = await queue.pending(limit, last), time.time()
    if as_json or not is_terminal():
        for question in questions:
            _write_question(question, now, as_json=as_json)
    elif not questions:
        write_line("Nothing waits for you.")
    else:
        for row in queue_list.draw_list(questions, make_layout(), now):
            write_line(row)
    count = await queue.waiting()
    if count > len(questions):
        rest = f"; the next ones: antiphon review list --after {questions[-1].id}" if len(questions) == limit else ""
        write_line(f"{len(questions)} of {count} that wait{rest}", sys.stderr)


async def watch_queue(store: Store, *, as_json: bool) -> None:
    """Write a line when a question comes, and one when it is decided."""
    queue = Queue(store)
    waiting: dict[str, Question] = {}
    seen = -1
    while not _is_unread():
        version = await store.reviews_version()
        if version != seen:
            seen, now = version, time.time()
            pending = {question.id: question for question in await queue.pending()}
            over = [await queue.get(id) for id in waiting if id not in pending]
            for question in (*over, *(pending[id] for id in pending if id not in waiting)):
                _write_question(question, now, as_json=as_json)
            waiting = pending
        await asyncio.sleep(_TICK)


def _is_unread() -> bool:
    """Return whether the reader of our output has gone (``| head``)."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _write_question(question: Question, now: float, *, as_json: bool) -> None:
    if as_json:
        print_json(_summarize_question(question, now))
        return
    left = queue_list.time_left(question, now)
    cells = [
        format_listed_id(question),
        question.state if question.waited_for or question.state != "pending" else "left",
        question.kind,
        "" if left is None else f"{left:.0f}",
        queue_list.describe_origin(question),
        queue_list.quote_content(question),
    ]
    write_line("\t".join(map(inert_line, cells)))


def _summarize_question(question: Question, now: float) -> dict[str, Any]:
    item = question.item
    summary: dict[str, Any] = {
        name: getattr(question, name)
        for name in (
            "id",
            "kind",
            "state",
            "group",
            "identity",
            "created",
            "expires",
            "waited_for",
            "by",
            "decided",
            "hash",
        )
    }
    summary["left"] = queue_list.time_left(question, now)
    if item is not None:
        origin = item.origin
        summary |= {
            "target": origin.target,
            "call": origin.call,
            "round": origin.round,
            "gist": queue_list.summarize_content(question),
        }
        summary["task"] = origin.task
        summary["warnings"] = [risk.text for risk in item.risks if risk.level == "warning"]
    if isinstance(item, ReviewItem):
        summary |= {"provider": item.provider, "model": item.model, "choices": sorted(item.choices)}
        summary["worst"] = item.costs.worst if item.costs else None
    elif isinstance(item, ElicitItem):
        summary["mode"] = item.params.mode
        summary["url"] = item.params.url
        summary["suggested"] = list_suggestions(item.params) or None
    return summary
