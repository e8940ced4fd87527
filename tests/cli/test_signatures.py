from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import click
import pytest
from msgspec import Struct

from antiphon.cli.signatures import Argument, ClickCommand, CommandOption


class Wide(Struct, frozen=True, kw_only=True):
    level: Annotated[Literal["low", "high"] | None, CommandOption("--level", help="How much.")] = None
    tag: Annotated[list[str] | None, CommandOption("--tag", "-t", help="A tag.")] = None


def order(
    item: Annotated[Path, Argument(metavar="ITEM", help="The item.")],
    notes: Annotated[list[str] | None, Argument(metavar="[NOTE]...")] = None,
    *,
    wide: Wide,
    count: Annotated[int, CommandOption("--count", metavar="N", min=1, max=9, help="How many.")] = 1,
    wrap: Annotated[bool | None, CommandOption("--wrap/--no-wrap", help="Wrap it.")] = None,
    gift: Annotated[bool, CommandOption("--gift", help="A gift.")] = False,
) -> int:
    """Order an item. It is sent at once.

    More is in the manual.
    """
    taken.append((item, notes, wide, count, wrap, gift))
    return 7


taken: list[tuple[Any, ...]] = []


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("cup", (Path("cup"), None, Wide(), 1, None, False)),
        (
            "cup a b --count 3 --no-wrap --gift --level high -t x --tag y",
            (Path("cup"), ["a", "b"], Wide(level="high", tag=["x", "y"]), 3, False, True),
        ),
    ],
)
def test_a_function_gets_its_arguments_options_and_option_sets(line: str, values: tuple[Any, ...]):
    """Each has its type; what is not given has its default, and a list is None."""
    taken.clear()
    assert ClickCommand("order", order).main(line.split(), "order", standalone_mode=False) == 7
    assert taken == [values]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "Missing parameter: item"),
        ("cup --count 10", "10 is not in the range 1<=x<=9."),
        ("cup --level mid", "'mid' is not one of 'low', 'high'."),
        ("cup --count many", "'many' is not a valid integer range."),
    ],
)
def test_wrong_values_are_refused(line: str, message: str):
    """The function is not called."""
    taken.clear()
    with pytest.raises(click.UsageError) as caught:
        ClickCommand("order", order).main(line.split(), "order", standalone_mode=False)
    assert (str(caught.value), taken) == (message, [])


def test_the_help_explains_arguments_and_options():
    """Arguments come first; the short help is the first sentence."""
    command = ClickCommand("order", order)
    context = click.Context(command, info_name="order")
    text = command.get_help(context)
    assert text.startswith("Usage: order [OPTIONS] ITEM [NOTE]...\n\n  Order an item. It is sent at once.\n\n  More is")
    assert "\nArguments:\n  ITEM       The item.\n  [NOTE]...\n\nOptions:\n  --level [low|high]  How much.\n" in text
    assert "[default: 1; 1<=x<=9]" in text
    assert command.get_short_help_str(10) == "Order an item."
