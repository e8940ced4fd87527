"""The layout of ``src`` stays as good as it is: bounds on the figures of ``python -m tests.support.house``.

No ruler: the bounds are on what a reader meets, and say nothing of how small a module should be.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import house

MAX_ENTRIES = 25
"""Most names side by side in a folder: as many as are taken in at a glance."""

MEANINGS = {
    "access": "who is let in, and by what token",
    "actions": "what a person can do about a question that waits",
    "app": "the application that a server is, and what HTTP makes of it",
    "arguments": "the arguments of a tool: as they are typed, as a function takes them",
    "asks": "what a server wants from its client",
    "audit": "the record of what was asked and decided: its log, its tables, its command",
    "base": "what all of a folder's kind have in common, as a Protocol",
    "body": "what a request holds: as bytes, and as the JSON of a vendor",
    "call": "a call of a tool, made by the command and served by the server",
    "calls": "calls of tools and the like while they are open: ours, and those that are served",
    "catalogue": "all there is of a kind: models with their prices, what servers behind a gateway offer",
    "channel": "where frames come from and go to",
    "check": "whether a server is right, and safe to use: the layer, and the command",
    "child": "a child process of ours",
    "client": "the client's side",
    "command": "one command with its options, where it has a folder",
    "completion": "values suggested for an argument while it is typed",
    "connection": "a connection to a peer: how it is made, the loop around its session",
    "contents": "blocks of content",
    "documents": "what others read of ours: for whoever signs in, for other hosts",
    "editor": "a person's editor on a text",
    "elicitation": "a server's question to the user",
    "exchange": "one request over HTTP with its answer",
    "export": "the record as a file",
    "failures": "what goes wrong in this folder, and how it is told",
    "files": "files that we write",
    "forms": "the fields of an elicitation",
    "gateway": "one server in front of many",
    "grants": "remembered permissions",
    "guards": "what an HTTP request has to pass before it is served",
    "history": "questions that were decided",
    "host": "the application that owns clients, consent and models",
    "http": "Streamable HTTP: its rules, its transport",
    "limits": "how often and how many at once",
    "list": "the command that lists",
    "location": "where a database is",
    "logins": "what was signed in to, and is kept",
    "memory": "the kind that lives in this process only",
    "metadata": "what a server publishes about signing in",
    "middleware": "functions around every request of a side",
    "model_api": "vendors' APIs on this machine: the layer, and the command that runs a program with it",
    "models": "what completes: those that are configured, one that is chosen, commands about them",
    "partials": "answers as far as they have come",
    "policy": "rules written in advance",
    "progress": "what is told of a call while it runs",
    "prompts": "templates of messages that a user picks",
    "queue_rows": "the queue as rows, for one surface",
    "reader": "what reads frames from the other end",
    "records": "what was decided, allowed and spent, to look at",
    "replicas": "processes that are the same server",
    "requests": "requests of ours",
    "resources": "what can be read at a URI",
    "review": "a person's decision",
    "rounds": "ask-and-retry of revision 2026-07-28",
    "rows": "the queue of a review, row by row",
    "sampling": "a server's request for a completion",
    "scopes": "what a token allows",
    "serve": "listening on this machine",
    "server": "the server's side",
    "session": "one peer over time: its rules, its place in a transport",
    "settings": "what can be set, and what holds otherwise",
    "sql": "SQLite and PostgreSQL",
    "sse": "server-sent events",
    "store": "what outlives a host",
    "stream": "one stream of server-sent events",
    "subscriptions": "who is told of changes",
    "targets": "what a client can be connected to",
    "task": "a call that outlives its request",
    "telemetry": "operations, told to OpenTelemetry",
    "texts": "what a review says, in every language",
    "tools": "functions that a model may call",
    "trust": "configuration files that a person has looked at",
    "views": "what is drawn of the queue and of one question",
    "web": "the review page",
}
"""Names that more than one module has, because all of them are about the same thing: this."""

NOUNS = {"listing", "logging", "lowering", "pending", "recording", "sampling", "spending", "testing"}
"""Names that end like a gerund and are words of the field."""

WALKS = {"tools/call": 25, "ctx.sample": 37}
"""Most files that one call leads through, both sides together."""

PAGE = Path(__file__).parents[1] / "docs" / "design" / "layers.md"
GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"


def test_no_folder_holds_more_names_than_are_taken_in_at_a_glance():
    """Past that, some of them belong together in a folder of their own."""
    assert {name: count for name, count in house.entries().items() if count > MAX_ENTRIES} == {}


def test_a_name_that_modules_share_means_the_same_in_all_of_them():
    """Otherwise one of them wants another name."""
    assert {name: places for name, places in house.twice().items() if name not in MEANINGS} == {}


def test_modules_are_named_by_nouns():
    """What happens in a room is a verb's business; the room has a name."""
    gerunds = {path.stem for path in house.SRC.rglob("*.py") if path.stem.endswith("ing")}
    assert gerunds <= NOUNS


def test_no_name_uses_a_word_that_the_glossary_replaces():
    """One word has one meaning, and one meaning one word: modules, classes, functions, variables."""
    words = {word for line in GLOSSARY.read_text(encoding="utf-8").splitlines() for word in _replaced(line)}
    assert len(words) > 20
    assert {name: place for name, place in house.names().items() if words & set(_words(name))} == {}


def _replaced(line: str) -> list[str]:
    """Return the words in the third column of the glossary's first table."""
    cells = [cell.strip() for cell in line.split("|")]
    return [] if len(cells) != 5 or cells[1] in {"word", "---"} else cells[3].replace(",", " ").split()


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


@pytest.mark.parametrize("with_types", [False, True])
def test_imports_run_in_no_circle(with_types: bool):
    """Neither when the program runs nor for the type checker."""
    assert house.largest_circle(with_types=with_types) == []


def test_a_circle_would_be_found():
    """Three modules that need each other are one component; a module that only leads there is none."""
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert list(house._components(edges)) == [["a", "b", "c"]]


def test_every_name_is_used():
    """What nothing names, and no user is promised, is dead."""
    assert house.unused() == []


def test_one_call_leads_through_few_files():
    """Whoever follows it has to open each of them."""
    walked = {name: len(files) for name, files in house.walks().items()}
    assert {name: count for name, count in walked.items() if not 0 < count <= WALKS[name]} == {}


def test_each_answer_to_where_do_i_put_names_a_place_that_is_there():
    """CONTRIBUTING.md answers ten questions by folder names."""
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Where do I put...?")[2].partition("\n## ")[0]
    answers = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ") and "| where |" not in line]
    places = [place for answer in answers for place in re.findall(r"`([a-z_/]+(?:\.py)?)`", answer) if "/" in place]
    assert len(answers) >= 10
    assert [place for place in places if not (house.SRC / place).exists()] == []


def test_the_page_quotes_the_bounds():
    """docs/design/layers.md says how many files a call leads through at most, in the words of the command."""
    quoted = re.findall(r"^files on the walk of (\S+): (\d+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: int(count) for name, count in quoted} == WALKS


def test_the_page_names_the_widest_folders():
    """With as many entries as they have, and the bound for all."""
    [(listed, bound)] = re.findall(
        r"^widest folders: (.+) \(at most (\d+)\)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    counted = house.entries()
    assert int(bound) == MAX_ENTRIES
    assert dict(each.split() for each in listed.split(", ")) == {
        name: str(count) for name, count in counted.items() if count == max(counted.values())
    }
