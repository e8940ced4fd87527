"""Completion of arguments."""

from __future__ import annotations

import enum
from typing import Literal

import pytest

from antiphon.errors import ConfigError, InvalidParams, ResultInvalid
from antiphon.server.context import Context
from antiphon.server.features.prompts import Completions, ServedPrompt
from antiphon.server.features.registry import Registry
from antiphon.server.features.resources import ServedTemplate
from antiphon.wire.completion import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

URI = "shop://{kind}/{product}"


class Kind(enum.Enum):
    NEW = "new"
    NEAR = "near"
    OLD = "Old"


def review(code: str, language: Literal["py", "js"] = "py") -> str:
    """Be a prompt."""
    return code


def item(kind: Kind, product: str) -> str:
    """Be a template."""
    return product


@pytest.fixture
def completions() -> Completions:
    """Make a server's completions with one prompt and one template."""
    prompts: Registry[ServedPrompt] = Registry("prompt")
    templates: Registry[ServedTemplate] = Registry("resource template")
    prompts.add("review", ServedPrompt.from_function(review))
    templates.add(URI, ServedTemplate.from_function(item, URI))
    return Completions(prompts, templates)


def asked(of: str, argument: str, value: str = "", **settled: str) -> CompleteRequestParams:
    """Make a request."""
    ref = ResourceTemplateReference(uri=of) if "://" in of else PromptReference(name=of)
    return CompleteRequestParams(
        ref=ref,
        argument=CompletionArgument(name=argument, value=value),
        context=CompletionContext(arguments=settled) if settled else None,
    )


async def test_a_completer_is_asked(completions):
    """With what was typed."""
    completions.add("review", "code", lambda value: [value + "1", value + "2"])
    result = await completions.complete(asked("review", "code", "a"))
    assert result == CompleteResult(completion=Completion(values=["a1", "a2"], total=2, has_more=False))


async def test_a_completer_may_know_the_other_arguments(completions):
    """And the context, in any order."""

    async def complete(ctx: Context, value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{value} {arguments} {ctx}"]

    completions.add(URI, "product", complete)
    found = await completions.complete(asked(URI, "product", "a", kind="new"), "context")
    assert found.completion.values == ["a {'kind': 'new'} context"]
    found = await completions.complete(asked(URI, "product"), "context")
    assert found.completion.values == [" {} context"]


@pytest.mark.parametrize(
    ("returned", "values"),
    [
        (None, []),
        ((), []),
        ({"a": 1}, ["a"]),
        ([Kind.NEW, 3], ["new", "3"]),
        (iter(["a"]), ["a"]),
        (Completion(values=["z"]), ["z"]),
        (CompleteResult(completion=Completion(values=["z"])), ["z"]),
    ],
)
async def test_whatever_lists_values_will_do(completions, returned, values):
    """Or a finished result."""
    completions.add("review", "code", lambda value: returned)
    assert list((await completions.complete(asked("review", "code"))).completion.values) == values


@pytest.mark.parametrize("returned", ["text", 3])
async def test_what_lists_nothing_is_refused(completions, returned):
    """A string is not a list of letters."""
    completions.add("review", "code", lambda value: returned)
    with pytest.raises(ResultInvalid, match=r'completer "review code" .* return a list'):
        await completions.complete(asked("review", "code"))


async def test_no_more_than_a_hundred_values_are_sent(completions):
    """server/utilities/completion: "Maximum 100 items per response"."""
    completions.add("review", "code", lambda value: [str(n) for n in range(101)])
    completion = (await completions.complete(asked("review", "code"))).completion
    assert (len(completion.values), completion.total, completion.has_more) == (100, 101, True)


@pytest.mark.parametrize(
    ("of", "argument", "value", "values"),
    [
        ("review", "language", "P", {"py"}),
        ("review", "language", "", {"py", "js"}),
        (URI, "kind", "ne", {"new", "near"}),
        (URI, "kind", "o", {"Old"}),
        (URI, "product", "a", set()),
    ],
)
async def test_without_a_completer_choices_are_offered(completions, of, argument, value, values):
    """Those that begin with what was typed, in any case."""
    assert set((await completions.complete(asked(of, argument, value))).completion.values) == values


@pytest.mark.parametrize(
    ("of", "argument", "message"),
    [
        ("other", "code", "Unknown prompt: other"),
        ("other://x", "code", "Unknown resource template: other://x"),
        ("review", "cod", 'Unknown argument: cod of "review", which has code, language'),
    ],
)
async def test_what_does_not_exist_is_named(completions, of, argument, message):
    """As invalid params."""
    with pytest.raises(InvalidParams, match=message):
        await completions.complete(asked(of, argument))


def test_completers_and_choices_count(completions):
    """So that a server without either offers no completion."""
    assert len(completions) == 2
    completions.add("later", "argument", lambda value: [])
    assert len(completions) == 3
    completions.remove("later", "argument")
    assert len(completions) == 2
    assert len(Completions(Registry("prompt"), Registry("resource template"))) == 0


@pytest.mark.parametrize(
    ("function", "problem"), [(lambda: ["x"], "a completer takes"), (lambda a, b, c: [a, b, c], "a completer takes")]
)
def test_a_function_that_cannot_complete_is_refused(completions, function, problem):
    """When it is added."""
    with pytest.raises(ConfigError, match=f'completer "review code" .*{problem}'):
        completions.add("review", "code", function)


def test_an_argument_has_one_completer(completions):
    """The second is refused."""
    completions.add("review", "code", lambda value: [])
    with pytest.raises(ConfigError, match='completer "review code" is there already'):
        completions.add("review", "code", lambda value: [])
