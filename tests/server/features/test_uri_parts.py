"""Expansion of single expressions, by the examples of RFC 6570."""

from __future__ import annotations

import pytest

from antiphon.server.features.uri_template import UriPart, UriTemplate

# RFC 6570, section 3.2: the values that its examples use.
VALUES = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": 6,
    "x": 1024,
    "y": 768,
    "empty": "",
    "empty_keys": {},
    "undef": None,
}


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("{count}", "one,two,three"),
        ("{count*}", "one,two,three"),
        ("{/count}", "/one,two,three"),
        ("{/count*}", "/one/two/three"),
        ("{;count}", ";count=one,two,three"),
        ("{;count*}", ";count=one;count=two;count=three"),
        ("{?count}", "?count=one,two,three"),
        ("{?count*}", "?count=one&count=two&count=three"),
        ("{&count*}", "&count=one&count=two&count=three"),
        ("{hello}", "Hello%20World%21"),
        ("{half}", "50%25"),
        ("O{empty}X", "OX"),
        ("O{undef}X", "OX"),
        ("{x,y}", "1024,768"),
        ("?{x,empty}", "?1024,"),
        ("?{undef,y}", "?768"),
        ("{var:3}", "val"),
        ("{keys}", "semi,%3B,dot,.,comma,%2C"),
        ("{keys*}", "semi=%3B,dot=.,comma=%2C"),
        ("{+hello}", "Hello%20World!"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("{+path:6}/here", "/foo/b/here"),
        ("{+keys}", "semi,;,dot,.,comma,,"),
        ("{#path,x}/here", "#/foo/bar,1024/here"),
        ("{#undef}", ""),
        ("X{.var,x}", "X.value.1024"),
        ("X{.list*}", "X.red.green.blue"),
        ("X{.empty_keys}", "X"),
        ("{/var,empty}", "/value/"),
        ("{/var:1,x}", "/v/1024"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("{;keys*}", ";semi=%3B;dot=.;comma=%2C"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("{?undef,y}", "?y=768"),
        ("{?keys}", "?keys=semi,%3B,dot,.,comma,%2C"),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&var:3}", "&var=val"),
    ],
)
def test_expansion_follows_the_examples_of_the_rfc(template, uri):
    """RFC 6570, sections 3.2.2 to 3.2.9."""
    assert UriTemplate(template).expand(VALUES) == uri


def test_a_reserved_value_keeps_its_triplets():
    """``{+var}`` leaves percent-encoding that is there already, and encodes a lone percent sign."""
    assert UriTemplate("{+v}").expand({"v": "a%20b%zz"}) == "a%20b%25zz"


def test_a_part_reaches_the_end_only_where_its_characters_allow():
    """Between two stops, every position up to the last good end is good."""
    part = UriPart(lead="", stops="/", least=1)
    after = bytearray(b"\0\0\0\0\0\0\1")
    assert list(part.reach("ab/cde", after)) == [0, 0, 0, 1, 1, 1, 0]


def test_an_optional_part_may_be_left_out():
    """Its positions are those from which the rest matches with or without it."""
    part = UriPart(lead="?", stops="#", optional=True)
    after = bytearray(b"\0\0\0\1")
    assert list(part.reach("a?b", after)) == [0, 1, 0, 1]
    assert part.end("a?b", 1, after) == 3
