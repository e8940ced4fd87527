from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli.arguments import read_arguments, read_texts
from antiphon.errors import ConfigError
from antiphon.machine.other_frameworks import suggest_similar

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "loud": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"$ref": "#/$defs/size"}},
        "map": {"type": "object"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "colour": {"enum": ["red", "blue"]},
        "level": {"enum": [1, 2]},
        "ring": {"$ref": "#/$defs/ring"},
        "free": {},
    },
    "$defs": {"size": {"type": "integer"}, "ring": {"$ref": "#/$defs/ring"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("text=a=b", "a=b"),
        ("text=12", "12"),
        ("text=", ""),
        ("count=-3", -3),
        ("ratio=2", 2),
        ("ratio=2.5", 2.5),
        ("loud=yes", True),
        ("loud=0", False),
        ("tags=one", ["one"]),
        ('tags=["a","b"]', ["a", "b"]),
        ("sizes=4", [4]),
        ('map={"a": 1}', {"a": 1}),
        ("maybe=null", None),
        ("maybe=4", 4),
        ("either=4", 4),
        ("either=four", "four"),
        ("colour=red", "red"),
        ("level=2", 2),
        ("ring=[1]", [1]),
        ("free=x", "x"),
        ("free=1", 1),
        ("text:=null", None),
    ],
)
def test_a_typed_text_becomes_what_the_schema_names(typed: str, value: object):
    """Numbers, booleans, lists and objects are read; a text stays one even if it looks like a number."""
    key = typed.partition("=")[0].rstrip(":")
    read = read_arguments([typed], SCHEMA)
    assert read == {key: value}
    assert type(read[key]) is type(value)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("count=x", "count=x: a whole number is needed"),
        ("ratio=x", "ratio=x: a number is needed"),
        ("ratio=nan", "ratio=nan: a number is needed"),
        ("loud=maybe", "loud=maybe: true or false is needed"),
        ("map=1", "map=1: a JSON object is needed"),
        ("sizes=x", "element=x: a whole number is needed"),
        ("txt=a", "there is no argument 'txt': did you mean 'text'?"),
        ("count:={", "count: '{' is not JSON"),
        (f"count:={'[' * 60_000}{']' * 60_000}", "count: '[[["),
        (f'map={{"a":{"[" * 60_000}{"]" * 60_000}}}', 'map={"a":[[['),
        ("alone", "'alone': an argument is written key=value"),
        ("=1", "'=1': an argument is written"),
        ("{", "the arguments: '{' is not JSON"),
    ],
)
def test_what_cannot_be_read_is_named(typed: str, message: str):
    """The message holds the argument as it was typed."""
    with pytest.raises(ConfigError) as caught:
        read_arguments([typed], SCHEMA)
    assert str(caught.value).startswith(message)


def test_one_object_can_give_all():
    """And single arguments after it win."""
    assert read_arguments(['{"text": "a", "count": 1}', "count=2"], SCHEMA) == {"text": "a", "count": 2}


def test_a_repeated_key_makes_a_list():
    """Where the schema wants one."""
    assert read_arguments(["tags=a", "tags=b"], SCHEMA) == {"tags": ["a", "b"]}
    assert read_arguments(["text=a", "text=b"], SCHEMA) == {"text": "b"}


def test_without_a_schema_json_is_taken_for_json():
    """A server may describe nothing."""
    assert read_arguments(["a=1", "b=x", "c=[true]"], {}) == {"a": 1, "b": "x", "c": [True]}


def test_arguments_of_prompts_are_texts():
    """Whatever they look like."""
    assert read_texts(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}


def test_a_name_that_is_close_is_proposed():
    """Else the names there are."""
    assert suggest_similar("ech", ["echo", "add"]) == "did you mean 'echo'?"
    assert suggest_similar("zzz", ["echo", "add"]) == "there are: echo, add"
    assert suggest_similar("zzz", []) == "there are: none"


def test_a_file_of_arguments_is_bounded_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One that is not there, too large, no text or no object is told by its name."""
    file = tmp_path / "a.json"
    for data, message in (
        (b"[1]", "a JSON object is needed"),
        (b"\xff", "not UTF-8"),
        (b"{}" + bytes(20), "larger than"),
    ):
        file.write_bytes(data)
        monkeypatch.setattr("antiphon.cli.arguments._LARGEST", 20)
        with pytest.raises(ConfigError, match=message):
            read_arguments([f"@{file}"], {})
    with pytest.raises(ConfigError, match="No such file"):
        read_arguments(["@nowhere.json"], {})
