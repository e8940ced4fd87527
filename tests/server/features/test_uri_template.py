"""URI templates: matching, expansion, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import ConfigError
from antiphon.server.features.uri_template import MAX_URI, UriTemplate


@pytest.mark.parametrize(
    ("template", "uri", "found"),
    [
        ("catalogue://{product}", "catalogue://sweater", {"product": "sweater"}),
        ("catalogue://{product}", "catalogue://a%20b", {"product": "a b"}),
        ("catalogue://{product}", "catalogue://a:b@c", {"product": "a:b@c"}),
        ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
        ("file:///{+path}{?q}", "file:///a/b?q=1", {"path": "a/b", "q": "1"}),
        ("{+path}/{name}.txt", "a/b/c.txt", {"path": "a/b", "name": "c"}),
        ("{name}.{ext}", "a.tar.gz", {"name": "a.tar", "ext": "gz"}),
        ("x:{a,b}", "x:1,2", {"a": "1", "b": "2"}),
        ("x:{a,b}", "x:1", {"a": "1"}),
        ("x:{list*}", "x:1,2", {"list": ["1", "2"]}),
        ("x:{/a}{/b}", "x:/1/2", {"a": "1", "b": "2"}),
        ("x:{/a,b}", "x:/1", {"a": "1"}),
        ("x:{/path*}/edit", "x:/1/2/edit", {"path": ["1", "2"]}),
        ("x:{.ext}", "x:.tar.gz", {"ext": "tar.gz"}),
        ("x:{;a,b}", "x:;a=1;b", {"a": "1", "b": ""}),
        ("x:{#where}", "x:#a/b?c", {"where": "a/b?c"}),
        ("x:{?q*,r}{&z}", "x:?r=3&q=1&z=%26&q=2", {"q": ["1", "2"], "r": "3", "z": "&"}),
        ("x:?fixed=1{&y}", "x:?fixed=1&y=2", {"y": "2"}),
        ("x:?q={q}&r={r}", "x:?q=1&r=2", {"q": "1", "r": "2"}),
        ("x:{v:3}", "x:abc", {"v": "abc"}),
        ("x:{?q}", "x:", {}),
        ("plain:text", "plain:text", {}),
    ],
)
def test_match_finds_the_variables(template, uri, found):
    """Every operator can be taken apart again."""
    assert UriTemplate(template).match(uri) == found


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("catalogue://{product}", "catalogue://"),
        ("catalogue://{product}", "catalogue://a/b"),
        ("catalogue://{product}", "catalogue://a?b"),
        ("catalogue://{product}", "other://a"),
        ("catalogue://{product}", "catalogue://%ff"),
        ("x:{a,b}", "x:1,2,3"),
        ("x:{/a}{/b}", "x:/1/2/3"),
        ("x:{?q}", "x:?other=1"),
        ("x:{?q}", "x:?q=1&q=2"),
        ("x:{v:3}", "x:abcd"),
        ("x:{?v:3}", "x:?v=abcd"),
        ("x:?q={q}&r={r}", "x:?q=1&z=3&r=2"),
        ("plain:text", "plain:text2"),
        ("", "x"),
    ],
)
def test_match_refuses_what_the_template_does_not_mean(template, uri):
    """A URI that is near, but not the template's, does not match."""
    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize("value", ["../../etc/passwd", "%", "%zz", "a%00b", "日本"])
def test_odd_values_stay_data(value):
    """What looks dangerous is handed over as it is, for the function to judge."""
    assert UriTemplate("file:///{+path}").match(f"file:///{value}") == {"path": value.replace("%00", "\0")}


def test_a_uri_beyond_the_limit_does_not_match():
    """The length is bounded before any work is done."""
    template = UriTemplate("x:{a}")
    assert template.match("x:" + "a" * (MAX_URI - 2)) is not None
    assert template.match("x:" + "a" * (MAX_URI - 1)) is None


def test_a_hostile_uri_costs_no_more_than_its_length():
    """Six variables around a separator would take a backtracking matcher years."""
    template = UriTemplate("{a}-{b}-{c}-{d}-{e}-{f}x")
    assert template.match("-" * (MAX_URI - 1) + "y") is None


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("x:{a", "brace without its partner at character 3"),
        ("x:a}", "brace without its partner at character 4"),
        ("{{a}}", "brace without its partner"),
        ("x:{}", "not an expression"),
        ("x:{a b}", "not an expression"),
        ("x:{=a}", "not an expression"),
        ("x:{a,}", "not an expression"),
        ("x:{a:0}", "not an expression"),
        ("x:{a}{b}", "nothing stands between 'a' and 'b'"),
        ("x:{a}/{a}", "variable 'a' comes twice"),
        ("x:" + "/".join(f"{{v{n}}}" for n in range(33)), "33 variables, at most 32"),
    ],
)
def test_a_malformed_template_is_refused_with_its_place(template, problem):
    """The author is told which template, and where."""
    with pytest.raises(ConfigError, match=re.escape(problem)) as caught:
        UriTemplate(template)
    assert repr(template) in str(caught.value)


def test_variables_are_listed_in_order():
    """All of them, and those without which nothing matches."""
    template = UriTemplate("x:{a}/{b}{?c,d}")
    assert template.variables == ("a", "b", "c", "d")
    assert template.match("x:1/2") == {"a": "1", "b": "2"}
    assert template.match("x:1") is None


_VALUES = st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable())


@given(_VALUES, _VALUES, st.lists(_VALUES, min_size=1, max_size=4))
def test_what_is_expanded_matches_again(first, second, several):
    """Expansion and matching are inverse for templates in which every variable can be told apart."""
    template = UriTemplate("x://{first}/y{/several*}{?second}")
    values = {"first": first, "second": second, "several": several}
    assert template.match(template.expand(values)) == values


@given(st.text(alphabet="ab-/?&=%#.,;{}", max_size=60))
def test_no_uri_makes_a_match_fail_with_an_exception(uri):
    """Whatever comes, the answer is a match or none."""
    found = UriTemplate("{a}-{+b}{/c*}{.d}{;e*}{?f,g*}{#h}").match(uri)
    assert found is None or set(found) <= set("abcdefgh")


@given(st.text(alphabet="ab-.", max_size=14))
def test_matching_agrees_with_a_regular_expression(uri):
    """For variables between literals, the result is that of greedy groups."""
    expected = re.fullmatch(r"([^/?#]+)-([^/?#]+)\.([^/?#]+)", uri)
    found = UriTemplate("{a}-{b}.{c}").match(uri)
    assert found == (None if expected is None else dict(zip("abc", expected.groups(), strict=True)))


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("file:///docs/caf\u00e9/{name}", "file:///docs/caf%C3%A9/a", {"name": "a"}),
        ("file:///docs/caf\u00e9/{name}", "file:///docs/caf%c3%a9/a", {"name": "a"}),
        ("file:///docs/caf\u00e9/{name}", "file:///docs/caf\u00e9/a", {"name": "a"}),
        ("file:///my docs/{name}", "file:///my%20docs/a%20b", {"name": "a b"}),
        ("file:///my docs/{name}", "FILE:///my docs/a b", {"name": "a b"}),
        ("file:///\u65e5\u672c/{+name}", "file:///%E6%97%A5%E6%9C%AC/x/y", {"name": "x/y"}),
        ("app://lit%C3%A9ral/{name}", "app://lit%c3%a9ral/\u00e9", {"name": "\u00e9"}),
        ("app://%7euser/{name}", "app://~user/a", {"name": "a"}),
        ("app://a/{name}", "app://%61/%2F", {"name": "/"}),
        ("app://{table}/{name}", "app://Users/A", {"table": "Users", "name": "A"}),
        ("app://{a}Foo:b/c", "app://xFoo:b/c", {"a": "x"}),
        ("app://a/100%/{name}", "app://a/100%/b", {"name": "b"}),
        ("app://q{?caf\u00e9*}".replace("caf\u00e9*", "name"), "app://q?name=caf%c3%a9", {"name": "caf\u00e9"}),
    ],
)
def test_equal_uris_match_in_every_spelling(template, uri, values):
    """RFC 6570, section 3.1, and RFC 3986, section 6.2.2."""
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize("uri", ["app://a%2Fb/x", "app://a/b%2Fx", "app://A/b/x"])
def test_another_uri_does_not_match(uri):
    """An encoded delimiter is data, and hosts keep their case."""
    assert UriTemplate("app://a/b/{name}").match(uri) is None


def test_literals_are_encoded_when_a_template_is_expanded():
    """An expanded template is a URI."""
    assert (
        UriTemplate("file:///my docs/caf\u00e9/{name}").expand({"name": "\u00e9"})
        == "file:///my%20docs/caf%C3%A9/%C3%A9"
    )
