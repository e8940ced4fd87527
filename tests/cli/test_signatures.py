from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import pytest
from msgspec import Struct

from antiphon.cli.options import ClickCommand
from antiphon.cli.root import COMMANDS


class Wide(Struct, frozen=True, kw_only=True):
    """An option set.

    Usage:
        --level: How much.
    """

    level: Literal["mild", "hot"] | None = None
    tag: Annotated[list[str] | None, "--tag, -t: A tag."] = None


def order(
    item: Path,
    notes: Annotated[list[str] | None, "[NOTE]..."] = None,
    *,
    wide: Wide,
    count: Annotated[int, click.IntRange(1, 9)] = 1,
    wrap: bool | None = None,
    gift: bool = False,
) -> int:
    """Order an item. It is sent at once.

    More is in the manual.

    Usage:
        ITEM: The item.
        --count N: How
            many.
        --wrap/--no-wrap: Wrap it.
        --gift: A gift.
    """
    taken.append((item, notes, wide, count, wrap, gift))
    return 7


taken: list[tuple[Any, ...]] = []


async def wait(*, interrupted: bool = False) -> int | None:
    """Wait."""
    await asyncio.sleep(0)
    if interrupted:
        raise KeyboardInterrupt
    return None


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("cup", (Path("cup"), None, Wide(), 1, None, False)),
        (
            "cup a b --count 3 --no-wrap --gift --level hot -t x --tag y",
            (Path("cup"), ["a", "b"], Wide(level="hot", tag=["x", "y"]), 3, False, True),
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
        ("cup --level mid", "'mid' is not one of 'mild', 'hot'."),
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
    assert "\nArguments:\n  ITEM       The item.\n  [NOTE]...\n\nOptions:\n  --level [mild|hot]  How much.\n" in text
    assert "[default: 1; 1<=x<=9]" in text
    assert command.get_short_help_str(10) == "Order an item."


def test_a_coroutine_function_is_run_to_its_end():
    """Nothing returned is success, and Ctrl-C has the exit code that shells expect."""
    command = ClickCommand("wait", wait)
    assert command.main([], "wait", standalone_mode=False) is None
    assert command.main(["--interrupted"], "wait", standalone_mode=False) == 130


def list_commands(name: str, module: str) -> Iterator[click.Command]:
    """Yield a command of the program and all commands below it."""
    path, _, function = f"antiphon.cli.commands.{module}".partition(":")
    found = import_module(path)
    waiting = [getattr(found, "commands", None) or ClickCommand(name, getattr(found, function or "command"))]
    while waiting:
        command = waiting.pop()
        yield command
        waiting += command.commands.values() if isinstance(command, click.Group) else ()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_of_the_program_is_explained(name: str):
    """A line below Usage that no parameter takes would leave its option without a help."""
    commands = list(list_commands(name, COMMANDS[name][0]))
    options = [one for command in commands for one in command.params if isinstance(one, click.Option)]
    assert [one.opts for one in options if not one.help] == []
    assert [command.name for command in commands if not command.help] == []
