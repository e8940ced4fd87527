"""Draws the states of a task from their table: ``python -m tests.support.task_table`` puts them on their page."""

from __future__ import annotations

import ast
import inspect
import itertools
from pathlib import Path

from antiphon.server.tasks import task_states
from antiphon.server.tasks.task_states import STATUS, TRANSITIONS, TaskState

__all__ = ["PAGE", "on_page", "table"]

PAGE = Path(__file__).parents[2] / "docs" / "topics" / "tasks.md"
_BEGIN = "<!-- states -->\n"
_END = "<!-- end of states -->\n"


def table() -> str:
    """Draw the table: a row for each state, with what leads out of it."""
    meanings = _meanings()
    lines = ["| state | what it is | status | what leads where |", "|---|---|---|---|"]
    for state, events in TRANSITIONS.items():
        leads: dict[TaskState, list[str]] = {}
        for event, target in events.items():
            if target is not state:
                leads.setdefault(target, []).append(event.value)
        where = "; ".join(f"{', '.join(names)}: **{target}**" for target, names in leads.items())
        lines.append(f"| **{state}** | {meanings[state]} | {STATUS[state]} | {where or 'nothing'} |")
    return "\n".join(lines) + "\n"


def _meanings() -> dict[TaskState, str]:
    """Collect what stands below each state in the code."""
    body = ast.parse(inspect.getsource(task_states)).body
    members = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == "TaskState")
    found: dict[TaskState, str] = {}
    for before, said in itertools.pairwise(members):
        if isinstance(before, ast.Assign) and isinstance(said, ast.Expr):
            found[TaskState(ast.literal_eval(before.value))] = str(ast.literal_eval(said.value)).rstrip(".")
    return found


def on_page() -> str:
    """Return the table as the page has it."""
    return PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]


if __name__ == "__main__":
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    PAGE.write_text(before + begin + table() + _END + rest.partition(_END)[2], encoding="utf-8")
