"""Values out of what a model says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from antiphon import ConfigError
from antiphon.json_schema.validator import MismatchError
from antiphon.server.asks.tool_loop import TypedAnswer


@dataclass
class Data:
    """Some data."""

    name: str
    n: int = 0


class Record(msgspec.Struct):
    """A record."""

    name: str
    n: int = 0


class Dictionary(TypedDict):
    """A dictionary."""

    name: str
    n: int


class Model(BaseModel):
    """A model with a rule."""

    name: str
    n: int = Field(ge=0, default=0)


class Mood(Enum):
    """A choice."""

    GOOD = "good"
    BAD = "bad"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Data, Data("a", 1)),
        (Record, Record("a", 1)),
        (Dictionary, {"name": "a", "n": 1}),
        (Model, Model(name="a", n=1)),
        (dict[str, Any], {"name": "a", "n": 1}),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "n": 1}',
        '\n {"name": "a", "n": 1}\n',
        '```json\n{"name": "a", "n": 1}\n```',
        'Here you are:\n```\n{"name": "a", "n": 1}\n```\nDoes that help?',
        'Sure! {"name": "a", "n": 1} is what I found.',
    ],
)
def test_an_object_is_found_in_what_models_write(kind: Any, value: Any, text: str) -> None:
    """Bare, in a fence, or with words around it; of whichever library the type is."""
    found = TypedAnswer(kind).read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "5", 5),
        (int, '{"result": 5}', 5),
        (bool, "true", True),
        (list[str], '["a"]', ["a"]),
        (list[str], '{"result": ["a"]}', ["a"]),
        (list[str], 'Names: ["a"].', ["a"]),
        (list[Data], '[{"name": "a"}]', [Data("a")]),
        (list[Record], '```\n{"result": [{"name": "a"}]}\n```', [Record("a")]),
        (Literal["good", "bad"], "good", "good"),
        (Literal["good", "bad"], ' "good"\n', "good"),
        (Mood, "bad", Mood.BAD),
        (int | None, "null", None),
        (Data | Record, '{"name": "a"}', None),
        (str, " any text\n", " any text\n"),
    ],
)
def test_what_is_no_object_may_be_bare_or_under_result(kind: Any, text: str, value: Any) -> None:
    """Models do either; choices come without quotes, and text is itself."""
    if kind == Data | Record:
        with pytest.raises(ConfigError):
            TypedAnswer(kind)
    else:
        assert TypedAnswer(kind).read(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (Data, "I cannot do that.", "no JSON in the answer"),
        (Data, "", "no JSON in the answer"),
        (Data, '{"n": 1}', 'missing "name"'),
        (Data, '{"name": "a", "n": "one"}', '"n": expected integer, got string'),
        (Data, '{"name": "a"', "no JSON in the answer"),
        (Model, '{"name": "a", "n": -1}', '"n": input should be greater than or equal to 0'),
        (list[int], '[1, "a"]', "expected integer, got string"),
        (Mood, "indifferent", "invalid enum value"),
        (Data, "[" * 5000 + "]" * 5000, "no JSON in the answer"),
    ],
)
def test_a_misfit_is_named(kind: Any, text: str, problem: str) -> None:
    """In words that a model can act on."""
    with pytest.raises(MismatchError, match=problem):
        TypedAnswer(kind).read(text)


def test_the_first_problem_is_told_and_the_schema_again() -> None:
    """A client may have dropped the system prompt."""
    wanted = TypedAnswer(Data)
    with pytest.raises(MismatchError) as caught:
        wanted.read('{"n": 1}')
    words = wanted.repair(caught.value)
    assert words.startswith('This does not fit: missing "name". Answer with one JSON value')
    assert '"required":["name"]' in words


def test_the_instruction_follows_the_authors_prompt() -> None:
    """It stands alone where there is none; for text there is none."""
    assert (TypedAnswer(Data).add_instructions("Be brief.") or "").startswith("Be brief.\n\nAnswer with one JSON value")
    assert (TypedAnswer(Data).add_instructions(None) or "").startswith("Answer with one JSON value")
    assert TypedAnswer(str).add_instructions(None) is None


def test_the_schema_is_compact() -> None:
    """It is paid for by the token."""
    words = TypedAnswer(Data).add_instructions(None) or ""
    assert ": " not in words.partition("\n")[2].replace("Some data", "")


def test_a_type_without_json_is_refused() -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigError, match="result_type"):
        TypedAnswer(type[int])


@given(st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5), st.lists, max_leaves=8))
def test_whatever_is_json_is_read_back(value: Any) -> None:
    """In a fence with words around it."""
    text = f"So:\n```json\n{msgspec.json.encode([value]).decode()}\n```\nDone."
    assert TypedAnswer(list[Any]).read(text) == [value]


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    """A value or a mismatch, nothing else."""
    try:
        found = TypedAnswer(Data).read(text)
    except MismatchError as error:
        found = str(error)
    assert found
