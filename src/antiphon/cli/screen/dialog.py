"""A form over the screen: fields, a key that sends it, and error messages beside the fields.

Owns the widgets. ``forms`` has the questions, ``host.review.decisions`` checks the input. Invalid input is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from antiphon.cli.screen.words import Words
from antiphon.host.checks.visible import inert, inert_line
from antiphon.host.review.decisions import Form, Refused

__all__ = ["Asked", "Choice", "Dialog"]

T = TypeVar("T")


class Choice(NamedTuple):
    """One of several choices."""

    value: str
    label: str


class Asked(NamedTuple):
    """One field."""

    name: str
    kind: Literal["line", "text", "one", "many", "note"]
    label: str = ""
    value: str | None = ""
    """The initial value; for ``"one"``, the value of a choice, or ``None`` if nothing is chosen yet."""
    choices: Sequence[Choice] = ()
    values: Sequence[str] = ()
    """The choices that are ticked initially, for ``"many"``."""


class Dialog(ModalScreen[T | None], Generic[T]):
    """A dialog that returns what ``check`` makes of the input; nothing if the person goes back."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > VerticalScroll { width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1; }
    Dialog > VerticalScroll { border: round ansi_default; }
    Dialog #title, Dialog .label { text-style: bold; }
    Dialog #problem { text-style: bold reverse; display: none; }
    Dialog #problem.said { display: block; }
    Dialog Input, Dialog TextArea { border: round ansi_default; height: 3; padding: 0 1; }
    Dialog TextArea { height: 8; }
    Dialog OptionList { border: round ansi_default; height: auto; max-height: 9; }
    Dialog OptionList > .option-list--option-highlighted { text-style: bold; }
    Dialog Input:focus, Dialog TextArea:focus, Dialog OptionList:focus { border: heavy ansi_default; }
    Dialog Button { border: none; height: 1; min-width: 8; margin: 0 1 0 0; }
    Dialog Button:focus { text-style: bold reverse; }
    Dialog Horizontal { height: 1; }
    """
    AUTO_FOCUS: ClassVar[str | None] = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "submit", priority=True),
        Binding("escape", "leave", priority=True),
        Binding("space", "tick"),
    ]

    def __init__(
        self, title: str, fields: Sequence[Asked], check: Callable[[Form], T], words: Words, *, send: str
    ) -> None:
        """Prepare the dialog. ``send`` is the label of the button that sends it."""
        super().__init__()
        self._title = title
        self._fields = fields
        self._check = check
        self._words = words
        self._send = send
        self._ticked = {
            f"field-{at}": {number for number, choice in enumerate(field.choices) if choice.value in field.values}
            for at, field in enumerate(fields)
            if field.kind == "many"
        }
        self.typed: list[tuple[str, str]] = []
        """The content of the fields when the person went back."""
        self._places: dict[str, int] = {}
        """The current position in each list."""

    def compose(self) -> ComposeResult:
        """Lay out the fields, one below the other."""
        with VerticalScroll(can_focus=False):
            yield Static(Content(inert_line(self._title)), id="title")
            for at, field in enumerate(self._fields):
                if field.label:
                    yield Static(Content(inert(field.label)), classes="label" if field.kind != "note" else "")
                if field.kind != "note":
                    yield _widget(field, f"field-{at}")
            yield Static(Content(""), id="problem")
            with Horizontal():
                yield Button(Content(f"{self._send} ^S"), id="send", compact=True)
                yield Button(Content(f"{self._words('edit.back')} Esc"), id="back", compact=True)

    def on_mount(self) -> None:
        """Focus the first field."""
        at = next((at for at, field in enumerate(self._fields) if field.kind != "note"), None)
        self.query_one("#send" if at is None else f"#field-{at}").focus(scroll_visible=False)

    def action_submit(self) -> None:
        """Send the form, if it is valid."""
        try:
            made = self._check(Form(self._typed()))
        except Refused as refused:
            said = f"{self._words(refused.key, **refused.values)} {refused.detail}"
            problem = self.query_one("#problem", Static)
            problem.update(Content(inert_line(said.strip())))
            problem.add_class("said")
            self.call_after_refresh(problem.scroll_visible, animate=False)
        else:
            self.dismiss(made)

    def action_leave(self) -> None:
        """Go back without a decision; the input is in ``typed``."""
        self.typed = self._typed()
        self.dismiss(None)

    def action_tick(self) -> None:
        """Tick a choice of several."""
        if isinstance(self.focused, OptionList) and self.focused.id in self._ticked:
            self.focused.action_select()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Handle a button like its key."""
        event.stop()
        if event.button.id == "send":
            self.action_submit()
        else:
            self.action_leave()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the next field; from the last one, send."""
        event.stop()
        self._next(event.input)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Go to the next field; from the last one, send. Choices of ``"many"`` are only ticked."""
        event.stop()
        ticked = self._ticked.get(event.option_list.id or "")
        if ticked is None:
            self._next(event.option_list)
            return
        ticked ^= {event.option_index}
        self._mark(event.option_list, event.option_index)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Mark the current position, because colours alone are not visible everywhere."""
        event.stop()
        choices = event.option_list
        if choices.highlighted != event.option_index:
            # A list reports its first position when it is created, although nothing is chosen in it.
            return
        before = self._places.get(choices.id or "")
        self._places[choices.id or ""] = event.option_index
        for at in {before, event.option_index} - {None}:
            self._mark(choices, at or 0)

    def _mark(self, choices: OptionList, at: int) -> None:
        id = choices.id or ""
        field = self._fields[int(id.removeprefix("field-"))]
        is_here = self._places.get(id) == at
        label = _label(field, at, is_here=is_here, is_ticked=at in self._ticked.get(id, ()))
        choices.replace_option_prompt_at_index(at, label)

    def _next(self, widget: Widget) -> None:
        asked = [f"field-{at}" for at, field in enumerate(self._fields) if field.kind != "note"]
        if widget.id == asked[-1]:
            self.action_submit()
        else:
            self.focus_next()

    def _typed(self) -> list[tuple[str, str]]:
        typed: list[tuple[str, str]] = []
        for at, field in enumerate(self._fields):
            if field.kind != "note":
                typed += [(field.name, value) for value in self._values(field, f"#field-{at}")]
        return typed

    def _values(self, field: Asked, place: str) -> list[str]:
        match field.kind:
            case "line":
                return [self.query_one(place, Input).value]
            case "text":
                return [self.query_one(place, TextArea).text]
            case "one":
                at = self.query_one(place, OptionList).highlighted
                return [] if at is None else [field.choices[at].value]
            case _:
                ticked = self._ticked[place.removeprefix("#")]
                return [choice.value for at, choice in enumerate(field.choices) if at in ticked]


def _widget(field: Asked, id: str) -> Widget:
    match field.kind:
        case "line":
            return Input(field.value or "", id=id, select_on_focus=False)
        case "text":
            return TextArea(field.value or "", id=id, soft_wrap=True, tab_behavior="focus", highlight_cursor_line=False)
        case _:
            ticked = [choice.value in field.values for choice in field.choices]
            labels = (_label(field, at, is_here=False, is_ticked=ticked[at]) for at in range(len(ticked)))
            options = OptionList(*map(Option, labels), id=id, markup=False)
            values = [choice.value for choice in field.choices]
            # A single choice has no initial selection; in a list of several to tick, the first is only
            # the position.
            here = None if field.kind == "one" else 0
            options.highlighted = values.index(field.value) if field.value in values else here
            return options


def _label(field: Asked, at: int, *, is_here: bool, is_ticked: bool) -> Content:
    name = inert_line(field.choices[at].label)
    if field.kind == "one":
        return Content(f"({'•' if is_here else ' '}) {name}")
    return Content(f"{'▸' if is_here else ' '} [{'x' if is_ticked else ' '}] {name}")
