from __future__ import annotations

import tomllib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import ConfigError
from antiphon.host.catalogue import Price
from antiphon.host.checks.policy import Rule
from antiphon.host.config.parse import Lines, read
from antiphon.host.config.settings import Budget, Caps

EVERYTHING = """
[defaults]
model = "fast"
order = ["fast", "home"]
models = ["*"]
review = "ask"
review_response = "flagged"
review_timeout = 120
generate_timeout = 30.5
attempts = 2

[defaults.caps]
max_tokens = 1000
per_minute = 10
concurrent = 2
per_call = 5

[defaults.budget]
call = 0.1
server = 1
day = 2
total = 20.50

[models.fast]
provider = "openai"
model = "gpt-5-mini"
key = "WORK_KEY"
aliases = ["quick"]
family = "gpt-mini"
context = 100000
max_output = 4000
inputs = ["text", "image"]
tools = true
speed = 4
intelligence = 3
fallback = "home"

[models.fast.price]
input = 0.25
output = 2

[[models.fast.price.steps]]
above = 100000
input = 0.5
output = 3

[models.home]
provider = "openai-compatible"
model = "qwen3"
base_url = "http://127.0.0.1:11434/v1"
price = { input = 0, output = 0 }

[servers.shop]
target = ["python", "shop.py"]
models = ["home"]
review = "never"
review_response = "never"

[servers.shop.caps]
max_tokens = 300

[servers.far]
target = "https://example.com/mcp"

[servers.known]
identity = "command:abc"

[policy]
default = "ask"
headless = "deny"

[[policy.rules]]
effect = "deny"
over_tokens = 5000
"""

TEXT = '''\
# a comment = 1
[defaults]
model = "a"
order = [
  "a",  # [not.a.table]
  "b",
]

[models."my model"]
price = { input = 1, output = 2 }
note = """
x = 1
[y]
"""
last = 'it''s' # "

[servers.shop.caps]
max_tokens = 1

[[policy.rules]]
effect = "ask"
[[policy.rules]]
effect = "deny"
a.b = 1
'''


def test_everything_can_be_said():
    """And is read as it is meant."""
    document = read(EVERYTHING, "antiphon.toml")
    fast, home = document.models
    assert (fast.name, fast.key, fast.aliases, fast.fallback) == ("fast", "WORK_KEY", ("quick",), "home")
    assert fast.price
    assert fast.price.cost(200_000, 0) == Decimal("0.1")
    assert home.price == Price(input=Decimal(0), output=Decimal(0))
    assert document.defaults.order == ("fast", "home")
    assert document.defaults.generate_timeout == 30.5
    assert document.defaults.budget == Budget(
        call=Decimal("0.1"), server=Decimal(1), day=Decimal(2), total=Decimal("20.50")
    )
    shop, far, known = document.servers
    assert (shop.caps, shop.models, shop.review) == (Caps(max_tokens=300), ("home",), "never")
    assert far.known_as.startswith("url:")
    assert known.known_as == "command:abc"
    assert document.policy
    assert document.policy.rules == (Rule(effect="deny", over_tokens=5000),)


def test_nothing_need_be_said():
    """An empty file is a file."""
    assert read("", "x").models == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = [", "f: not TOML: "),
        ("[default]\nmodel = 'a'", "f, line 1: default: there is no such key; did you mean 'defaults'?"),
        ("[defaults]\n\nmodle = 'a'", "f, line 3: defaults.modle: there is no such key; did you mean 'model'?"),
        ("[defaults.caps]\nmax_token = 5", "f, line 2: defaults.caps.max_token: there is no such key; did you mean"),
        ("[defaults.caps]\nzzz = 5", "zzz: there is no such key; there are: max_tokens, "),
        ("[defaults.caps]\nmax_tokens = 'many'", "f, line 2: defaults.caps.max_tokens: Expected `int"),
        ("[defaults.caps]\nmax_tokens = -1", "f, line 1: defaults.caps: max_tokens is 0 or more"),
        ("[defaults.budget]\nday = nan", "day is 0 or more"),
        ("[defaults]\nreview = 'maybe'", "f, line 2: defaults.review: Invalid enum value 'maybe'"),
        ("[defaults]\nattempts = 0", "attempts is above 0"),
        ("models = 3", "f, line 1: models: is a table: write [models.NAME]"),
        ("[[models]]\nname = 'a'", "f, line 1: models: is a table: write [models.NAME]"),
        ("policy = 'deny'", "f, line 1: policy: is a table: write [policy]"),
        ("[models]\na = 3", "f, line 2: models.a: is a table: write [models.a]"),
        ("[models.a]\nmodel = 'x'", "f, line 1: models.a: Object missing required field `provider`"),
        ("[models.a]\nname = 'x'", "f, line 2: models.a.name: the name is in the heading: [models.a]"),
        ("[models.a]\nprovider='openai'\nmodel='x'\nspeed = 6", "f, line 4: models.a.speed: Invalid enum value 6"),
        ("[models.a]\nprovider='openai'\nmodel='x'\nprice = {input = 1}", "f, line 4: models.a.price: Object missing"),
        (
            "[models.a]\nprovider='openai'\nmodel='x'\n[models.a.price]\ninput=1\noutput=-1",
            "f, line 4: models.a.price: a price is",
        ),
        (
            "[models.a]\nprovider='openai'\nmodel='x'\n[models.a.price]\ninput=1\noutput=1\n[[models.a.price.steps]]\nabov=2",
            "f, line 8: models.a.price.steps[0].abov: there is no such key",
        ),
        (
            "[models.a]\nprovider='openai'\nmodel='x'\nfallback='b'",
            "f, line 4: models.a.fallback: there is no model 'b'",
        ),
        (
            "[defaults]\nmodel='b'\n[models.a]\nprovider='openai'\nmodel='x'",
            "f, line 2: defaults.model: there is no model 'b'; there are: a",
        ),
        ("[servers.s]\nreview='ask'", "f, line 1: servers.s: needs either target or identity"),
        ("[servers.s]\ntarget='python x.py'", "as a list of words"),
        (
            "[models.a]\nprovider='opnai'\nmodel='x'",
            "f, line 2: models.a.provider: there is no provider 'opnai'; did you",
        ),
        ("[models.a]\nprovider='ollama'\nmodel='x'", 'what speaks as OpenAI does is "openai-compatible"'),
        (
            "[models.a]\nprovider='openai-compatible'\nmodel='x'",
            "f, line 1: models.a: openai-compatible needs a base_url",
        ),
        ("[[policy.rules]]\neffect='ask'\n[[policy.rules]]\nefect='ask'", "f, line 4: policy.rules[1].efect: "),
    ],
    ids=range(28),
)
def test_a_mistake_is_told_with_its_line(text: str, message: str):
    """And the remedy."""
    with pytest.raises(ConfigError) as error:
        read(text, "f")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "line",
    ["key = 'sk-proj-abcdef0123456789'", "api_key = 'sk-proj-abcdef0123456789'", "token = 'sk-proj-abcdef0123456789'"],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(line: str):
    """It belongs into the environment."""
    with pytest.raises(ConfigError, match=r"line 4.*environment") as error:
        read(f"[models.a]\nprovider='openai'\nmodel='x'\n{line}", "f")
    assert "abcdef" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[servers.x]\nreview = "sometimes"', "line 2: servers.x.review: .*'sometimes'; there are: never, ask, refuse"),
        ('[[policy.rules]]\neffect = "maybe"', r"line 2: policy.rules\[0\].effect: .*; there are: deny, ask, allow"),
        ('[models.a]\nprovider = "echo"\nmodel = "e"\ninputs = ["smell"]', "line 4: .*; there are: text, image, audio"),
    ],
)
def test_a_word_that_is_none_is_told_with_those_there_are(text: str, told: str):
    """So that nobody need look them up."""
    with pytest.raises(ConfigError, match=told):
        read(text, "f")


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("defaults",), 2),
        (("defaults", "model"), 3),
        (("defaults", "order"), 4),
        (("defaults", "order", 1), 4),
        (("models",), 9),
        (("models", "my model"), 9),
        (("models", "my model", "price", "input"), 10),
        (("models", "my model", "note"), 11),
        (("models", "my model", "x"), 9),
        (("models", "my model", "last"), 15),
        (("servers", "shop"), 17),
        (("servers", "shop", "caps", "max_tokens"), 18),
        (("policy", "rules", 0, "effect"), 21),
        (("policy", "rules", 1, "effect"), 23),
        (("policy", "rules", 1, "a", "b"), 24),
        (("nowhere",), 1),
        ((), 1),
    ],
)
def test_a_place_has_a_line(place, line: int):
    """Or that of the nearest thing around it."""
    assert Lines(TEXT).of(place) == line


words = st.text("ab", min_size=1, max_size=2)


@given(
    st.lists(st.tuples(words, st.lists(words, unique=True)), unique_by=lambda table: table[0]),
    st.text("\n #", max_size=3),
)
def test_every_key_is_found_where_it_is(tables, between: str):
    """Whatever stands between."""
    blank = "".join(f"{part}\n" for part in between.split("\n") if not part.strip(" ") or part.lstrip().startswith("#"))
    written: list[str] = []
    expected = {}
    for table, keys in tables:
        written += [*blank.splitlines(), f"[{table}]"]
        expected[table,] = len(written)
        for key in keys:
            written.append(f"  {key} = 'x'")
            expected[table, key] = len(written)
    text = "\n".join(written)
    tomllib.loads(text)
    lines = Lines(text)
    assert {place: lines.of(place) for place in expected} == expected
