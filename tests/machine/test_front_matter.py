"""YAML at the head of a file, read as JSON."""

from __future__ import annotations

import pytest

from antiphon.machine.front_matter import MAX_BYTES, read_front_matter, read_untrusted_front_matter


@pytest.mark.parametrize(
    ("yaml", "value"),
    [
        ("a: text", "text"),
        ("a: 'it''s'", "it's"),
        ("a: 1", 1),
        ("a: '1'", "1"),
        ("a: 1.50", 1.5),
        ("a: 1e3", 1000.0),
        ("a: 0x1f", 31),
        ("a: 0o17", 15),
        ("a: 017", 17),
        ("a: 1_000", "1_000"),
        ("a: .inf", ".inf"),
        ("a: 1e999", "1e999"),
        ("a: 99999999999999999999", 1e20),
        ("a: true", True),
        ("a: yes", "yes"),
        ("a: 2026-01-01", "2026-01-01"),
        ("a: 12:30", "12:30"),
        ("a: !!str 1", "1"),
        ("a:", None),
        ("a: ~", None),
        ("a: |\n  two\n  lines", "two\nlines\n"),
        ("a: >-\n  one\n  line", "one line"),
        ("a: [1, {b: c}]", [1, {"b": "c"}]),
        ("a: # a comment\n  b: c", {"b": "c"}),
        ("a: &x [1]\nb: *x", [1]),
        ("a: ünïcode 🎉", "ünïcode 🎉"),
    ],
)
def test_values_are_those_of_yaml_1_2(yaml, value):
    """Where earlier versions have dates and booleans, it has text."""
    read = read_front_matter(f"---\n{yaml}\n---\nBody\n---\n".encode())["a"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("data", [b"---\r\na: 1\r\n---\r\nBody", b"--- \na: 1\n---", b"\xef\xbb\xbf---\na: 1\n---\n"])
def test_line_ends_and_a_byte_order_mark_do_not_matter(data):
    """Of a file that another server has."""
    assert read_front_matter(data) == {"a": 1}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "front matter"),
        (b"a: 1\n", "front matter"),
        (b"---\na: 1\n", "front matter"),
        (b"---\na: 1\n---x\n", "front matter"),
        (b"---\n- a\n---\n", "not a mapping"),
        (b"---\n---\n", "not a mapping"),
        (b"---\na: [\n---\n", "not YAML"),
        (b"---\na: 1\na: 2\n---\n", "there already|not YAML"),
        (b"---\n? [a]\n: 1\n---\n", "no text"),
        (b"---\na: !!python/object:os.system x\n---\n", "unknown type"),
        (b"---\na: !x [1]\n---\n", "unknown type"),
        (b"---\na: \xff\n---\n", "utf-8"),
        (b"---\na: " + b"[" * 1_000 + b"\n---\n", "nested"),
        (b"---\na: 1\n" + b"#" * 2 * MAX_BYTES + b"\n---\n", "at most"),
    ],
)
def test_what_is_no_front_matter_is_refused(data, why):
    """By an error that says why."""
    with pytest.raises(ValueError, match=why):
        read_front_matter(data)


def test_aliases_of_aliases_are_bounded():
    """Nine lines of them stand for a billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ValueError, match="10,000 values"):
        read_front_matter("\n".join(["---", *lines, "---", ""]).encode())


async def test_what_a_peer_sent_is_read_aside():
    """With the same results."""
    assert await read_untrusted_front_matter(b"---\na: 1\n---\n") == {"a": 1}
    with pytest.raises(ValueError, match="front matter"):
        await read_untrusted_front_matter(b"Body")
