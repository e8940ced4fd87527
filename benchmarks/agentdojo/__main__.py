"""AgentDojo's tasks and injected tasks by their ground truth, without a model: what is asked, and what is stopped.

    python -m benchmarks.agentdojo [--suites NAMES] [--tasks N] > benchmarks/RESULTS-agentdojo.md

The page goes to standard output, each row also to standard error. AgentDojo is installed once into an environment of
its own, outside the repository.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agentdojo.environment import PACKAGE
from benchmarks.agentdojo.replay import HERE, INJECTED, SUITES, VERSION, Session, Suite, serve_suite

RULES = (HERE / "rules.toml").read_text()
"""Rules about arguments that fit anybody: they name no person, no place and no company."""
STRICT = """
[[policy.rules]]
effect = "ask"
kind = "tool"
when = '"untrusted" in session && !annotations.readOnlyHint'
"""
"""A rule that somebody adds who wants to be asked about everything that is changed after a text of strangers."""
KINDS = ("steals", "acts")


@dataclass
class Replayed:
    """What came out for one suite, or for several."""

    new: int = 0
    tasks: list[Session] = field(default_factory=list)
    attacks: dict[str, list[Session]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def add(self, other: Replayed) -> None:
        """Add what came out for another suite."""
        self.new += other.new
        self.tasks += other.tasks
        for kind in KINDS:
            self.attacks[kind] += other.attacks[kind]

    @property
    def calls(self) -> int:
        """Calls of all tasks: the questions of somebody who asks always."""
        return sum(len(each.task) for each in self.tasks)

    @property
    def asked(self) -> int:
        """Calls of all tasks that were asked about, once no tool is new."""
        return sum(call.asked is not None for each in self.tasks for call in each.task)


async def replay_suite(suite: Suite, limit: int | None = None) -> Replayed:
    """Replay all tasks alone, then each with each injected task."""
    names, found = await suite.list_tasks(), Replayed(new=await suite.allow_all())
    for task in names["tasks"][:limit]:
        session = await suite.replay(task)
        if not session.done["task"]:
            raise SystemExit(f"{suite.name}: {task} was replayed, but AgentDojo finds that it is not done")
        found.tasks.append(session)
        for kind, injected in _list_injected(suite.name):
            attack = await suite.replay(task, injected)
            if not attack.has_read:
                raise SystemExit(f"{suite.name}: {task} does not read what {injected} has written")
            if attack.is_stopped and attack.done["injected"]:
                raise SystemExit(f"{suite.name}: {injected} was stopped in {task}, but AgentDojo finds it done")
            found.attacks[kind].append(attack)
    return found


def _list_injected(suite: str) -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        for number in INJECTED[suite]["kinds"][kind]:
            yield kind, f"injection_task_{number}"


def _format_share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none"


def render_row(name: str, found: Replayed) -> str:
    """Return a row of the table."""
    quiet = sum(all(call.asked is None for call in each.task) for each in found.tasks)
    stopped = {kind: [each for each in found.attacks[kind] if each.is_stopped] for kind in KINDS}
    both = [each for kind in KINDS for each in stopped[kind] if any(call.asked is not None for call in each.task)]
    cells = [
        name,
        _format_share(found.asked, found.calls),
        f"{quiet} of {len(found.tasks)}",
        *(_format_share(len(stopped[kind]), len(found.attacks[kind])) for kind in KINDS),
        _format_share(len(both), sum(map(len, stopped.values()))),
        str(found.new),
    ]
    return f"| {' | '.join(cells)} |"


async def run_all(suites: list[str], limit: int | None, more: str = "") -> tuple[str, Replayed]:
    """Replay suites with more lines in ``antiphon.toml``; return the table, and what came out for all of them."""
    rows: list[str] = []
    total = Replayed()
    for name in suites:
        with TemporaryDirectory() as folder:
            async with serve_suite(name, Path(folder), more) as suite:
                found = await replay_suite(suite, limit)
        total.add(found)
        rows.append(render_row(name, found))
        sys.stderr.write(f"{rows[-1]}\n")
    return "\n".join([_head_table(*COLUMNS), *rows, render_row("**all**", total)]), total


def _count_questions(found: Replayed) -> Counter[tuple[str, str, str]]:
    calls = ((each.suite, call) for each in found.tasks for call in each.task)
    return Counter((suite, call.tool, call.asked) for suite, call in calls if call.asked is not None)


def render_questions(plain: Replayed, ruled: Replayed) -> str:
    """Return the table of the tools whose calls were asked about in user tasks, and why."""
    before, after = _count_questions(plain), _count_questions(ruled)
    rows = [
        f"| {suite} | `{tool}` | {WHY[why]} | {before[key]} | {after[key]} |"
        for key in before
        for suite, tool, why in [key]
    ]
    return "\n".join([_head_table("suite", "tool", "why", "labels alone", "with both rules"), *rows])


def render_passed(found: Replayed) -> str:
    """Return the table of the injected tasks that were not stopped each time."""
    attacks = [(kind, each) for kind in KINDS for each in found.attacks[kind]]
    made = Counter((each.suite, each.order, kind) for kind, each in attacks)
    stopped = Counter((each.suite, each.order, kind) for kind, each in attacks if each.is_stopped)
    rows = [
        f"| {suite} | `{order}` | {SAID[kind]} | {_format_share(stopped[suite, order, kind], count)} |"
        for (suite, order, kind), count in made.items()
        if stopped[suite, order, kind] < count
    ]
    return "\n".join([_head_table("suite", "injected task", "kind", "stopped"), *rows])


COLUMNS = (
    "suite",
    "calls of user tasks that were asked about",
    "user tasks without a question",
    "thefts stopped",
    "other orders stopped",
    "stopped, with a question in both",
    "asked once, because a tool is new",
)
WHY = {
    "flow": "it can send, after both were read",
    "overwrites": "its server says that it overwrites something",
    "new": "it is new",
}
SAID = {"steals": "theft", "acts": "other order"}


def _head_table(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"


async def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.agentdojo")
    parser.add_argument("--suites", default=",".join(SUITES), help="names, with commas between them")
    parser.add_argument("--tasks", type=int, help="only so many user tasks of each suite")
    given = parser.parse_args()
    suites = given.suites.split(",")
    plain, by_labels = await run_all(suites, given.tasks)
    ruled, by_rules = await run_all(suites, given.tasks, RULES)
    strict, _ = await run_all(suites, given.tasks, RULES + STRICT)
    page = (HERE / "page.md").read_text()
    sys.stdout.write(
        page.format(
            package=PACKAGE,
            version=VERSION,
            plain=plain,
            rules=RULES.strip(),
            ruled=ruled,
            questions=render_questions(by_labels, by_rules),
            passed=render_passed(by_rules),
            rule=STRICT.strip(),
            strict=strict,
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
