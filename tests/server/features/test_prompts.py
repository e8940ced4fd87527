"""Prompts made of functions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Literal

import msgspec
import pytest

from antiphon.errors import ConfigError, ResultInvalid
from antiphon.server.context import Context
from antiphon.server.features.prompts import ServedPrompt
from antiphon.server.functions.arguments import ArgumentError
from antiphon.wire.content import ImageContent, TextContent
from antiphon.wire.prompts import GetPromptResult, PromptArgument, PromptMessage

IMAGE = ImageContent.of(b"\0", "image/png")
TITLED = Annotated[Literal["py", "js"], msgspec.Meta(title="Language")]


def review(code: str, language: TITLED = "py", lines: int = 3) -> str:
    """Review code.

    Args:
        code: What to review.
    """
    return f"Review {lines} lines of {language}: {code}"


def returning(value) -> ServedPrompt:
    """Make a prompt whose function returns a value."""
    return ServedPrompt.from_function(lambda: value, name="given", inline=True)


def text(role, words) -> PromptMessage:
    """Make a message of text."""
    return PromptMessage(role=role, content=TextContent(text=words))


def test_a_function_is_listed_with_its_arguments():
    """Names, words and which are required; types stay here."""
    definition = ServedPrompt.from_function(review, title="Review").definition
    assert (definition.name, definition.title, definition.description) == ("review", "Review", "Review code.")
    assert definition.arguments == [
        PromptArgument(name="code", description="What to review.", required=True),
        PromptArgument(name="language", title="Language", required=False),
        PromptArgument(name="lines", required=False),
    ]


def test_a_prompt_without_arguments_lists_none():
    """The member is left out."""
    assert returning("x").definition.arguments is None


async def test_arguments_are_text_and_typed_in_the_function():
    """As the annotation says."""
    result = await ServedPrompt.from_function(review).get({"code": "x", "lines": "5"})
    assert result == GetPromptResult(description="Review code.", messages=[text("user", "Review 5 lines of py: x")])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (None, 'missing argument "code"'),
        ({"code": "x", "lines": "many"}, 'argument "lines": expected integer, got string'),
        ({"code": "x", "langage": "py"}, 'unknown argument "langage"; did you mean "language"'),
        ({"code": "x", "language": "c"}, "argument \"language\": invalid enum value 'c', expected one of"),
    ],
)
async def test_arguments_that_do_not_fit_are_named(arguments, message):
    """Unknown, missing or of the wrong type."""
    with pytest.raises(ArgumentError) as caught:
        await ServedPrompt.from_function(review).get(arguments)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("a", [text("user", "a")]),
        (IMAGE, [PromptMessage(role="user", content=IMAGE)]),
        (text("assistant", "a"), [text("assistant", "a")]),
        ({"role": "assistant", "content": "a"}, [text("assistant", "a")]),
        ({"role": "user", "content": {"type": "text", "text": "a"}}, [text("user", "a")]),
        (SimpleNamespace(role="user", content=TextContent(text="a")), [text("user", "a")]),
        (
            SimpleNamespace(role="user", content=[TextContent(text="a"), IMAGE]),
            [text("user", "a"), PromptMessage(role="user", content=IMAGE)],
        ),
        (["a", {"role": "assistant", "content": "b"}], [text("user", "a"), text("assistant", "b")]),
        ([], []),
    ],
)
async def test_what_is_returned_becomes_messages(value, messages):
    """Text and content are the user's; a list is a conversation."""
    assert list((await returning(value).get(None)).messages) == messages


async def test_a_finished_result_passes():
    """Untouched."""
    result = GetPromptResult(messages=[])
    assert await returning(result).get({}) is result


@pytest.mark.parametrize("value", [3, None, {"role": "system", "content": "a"}, {"content": "a"}, [b"x"]])
async def test_what_is_no_message_is_refused(value):
    """Naming the prompt and the remedy."""
    with pytest.raises(ResultInvalid, match=r'prompt "given" .* returned .*: return text, a PromptMessage'):
        await returning(value).get({})


async def test_an_optional_argument_that_a_person_left_empty_has_its_default():
    """Forms of hosts send an empty text then; where a text is wanted, or something must be given, it is one."""

    def ask(code: str, note: str = "none", lines: int = 3, of: int | None = None, kind: TITLED = "py") -> str:
        return f"{code!r} {note!r} {lines} {of} {kind}"

    prompt = ServedPrompt.from_function(ask, inline=True)
    empty = dict.fromkeys(("code", "note", "lines", "of", "kind"), "")
    assert (await prompt.get(empty)).messages == [text("user", "'' '' 3 None py")]

    def require(lines: int) -> str:
        return str(lines)

    with pytest.raises(ArgumentError, match='"lines": expected integer'):
        await ServedPrompt.from_function(require, inline=True).get({"lines": ""})


async def test_the_context_is_passed():
    """To a prompt that wants it."""

    async def greet(ctx: Context, name: str) -> str:
        return f"{ctx} {name}"

    prompt = ServedPrompt.from_function(greet)
    assert prompt.wants_context
    assert prompt.arguments == ("name",)
    assert (await prompt.get({"name": "you"}, "Hello")).messages == [text("user", "Hello you")]


def test_choices_are_known_for_completion():
    """Those of enums and literals."""
    assert {name: set(values) for name, values in ServedPrompt.from_function(review).choices.items()} == {
        "language": {"py", "js"}
    }


def test_a_function_that_cannot_be_a_prompt_is_refused():
    """As for tools."""
    with pytest.raises(ConfigError, match=r'prompt "x" .* has no name on the wire'):
        ServedPrompt.from_function(lambda *items: "", name="x")
