from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.config.toml_lines import Lines

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
