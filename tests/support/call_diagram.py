"""Draws the life of a modern call from its table: ``python -m tests.support.call_diagram`` puts it on its page."""

from __future__ import annotations

from pathlib import Path

from antiphon.server.calls.call_states import ENDS, TRANSITIONS, CallEvent, CallState

__all__ = ["PAGE", "diagram", "on_page"]

PAGE = Path(__file__).parents[2] / "docs" / "topics" / "eras-and-rounds.md"
_BEGIN = "```mermaid\nstateDiagram-v2\n"
_END = "```\n"
_HANDLER = "handler"
"""The box around the states in which the handler goes on."""
_OUTSIDE = {CallState.NEW, CallState.CANCELLED, *ENDS}


def diagram() -> str:
    """Draw the table: what all states in which the handler goes on share is one arrow from the box around them."""
    inside = [state for state in TRANSITIONS if state not in _OUTSIDE]
    shared = [
        event for event in CallEvent if len({TRANSITIONS[state].get(event) for state in inside}) == 1
        and event in TRANSITIONS[inside[0]]
    ]  # fmt: skip
    lines = [f'    state "the handler goes on" as {_HANDLER} {{']
    for state in inside:
        lines += [f"        {arrow}" for arrow in _arrows(state, without=shared)]
    lines.append("    }")
    lines += [f"    [*] --> {_name(target)} : {event}" for event, target in TRANSITIONS[CallState.NEW].items()]
    lines += [f"    {_HANDLER} --> {_name(TRANSITIONS[inside[0]][event])} : {event}" for event in shared]
    lines += [f"    {arrow}" for arrow in _arrows(CallState.CANCELLED, without=[])]
    lines += [f"    {_name(state)} --> [*]" for state in TRANSITIONS if state in ENDS]
    return _BEGIN + "\n".join(lines) + "\n" + _END


def _arrows(state: CallState, *, without: list[CallEvent]) -> list[str]:
    leads: dict[CallState, list[str]] = {}
    for event, target in TRANSITIONS[state].items():
        if event not in without:
            leads.setdefault(target, []).append(event)
    arrows = [f"{_name(state)} --> {_name(target)} : {', '.join(events)}" for target, events in leads.items()]
    return arrows or [_name(state)]


def _name(state: CallState) -> str:
    return state.replace(" ", "_")


def on_page() -> str:
    """Return the diagram as the page has it; empty if it has none."""
    text = PAGE.read_text(encoding="utf-8")
    _, begin, rest = text.partition(_BEGIN)
    return begin + rest.partition(_END)[0] + _END if begin else ""


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(on_page(), diagram()), encoding="utf-8")
