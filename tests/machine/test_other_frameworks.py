"""A name of FastMCP or of the official SDK that does not exist here says which one does."""

from __future__ import annotations

import asyncio
import inspect
import re
from fractions import Fraction
from itertools import chain
from typing import Any, cast

import pytest

import antiphon
import antiphon.gateway
import antiphon.server
from antiphon import CallToolResult, Client, ConfigError, Context, CreateMessageResult, Elicited, Sample, Server, types
from antiphon.gateway import Gateway
from antiphon.host import Host
from antiphon.machine.other_frameworks import ELSEWHERE, check_argument_types
from antiphon.server.features.checked_options import AccessOptions
from antiphon.server.features.tools import ToolOptions

CLASSES = {cls.__name__: cls for cls in (CallToolResult, Client, Context, Elicited, Sample, Server)}
PLACES = {
    "Server()": lambda **options: Server("shop", **options),
    "server.tool()": lambda **options: Server("shop").tool(**options)(len),
    "server.resource()": lambda **options: Server("shop").resource("shop://hats", **options)(len),
    "server.prompt()": lambda **options: Server("shop").prompt(**options)(len),
    "server.mount()": lambda **options: Server("shop").mount(Server("other"), **options),
    "server.run()": lambda **options: Server("shop").asgi(**options),
    "Client()": lambda **options: Client(Server("shop"), **options),
    "client.call_tool()": lambda **options: asyncio.run(Client(Server("shop")).call_tool("buy", **options)),
    "ctx.elicit()": lambda **options: asyncio.run(context().elicit("How many?", **options)),
    "ctx.sample()": lambda **options: asyncio.run(context().sample("Describe it", **options)),
    "ctx.log()": lambda **options: asyncio.run(context().info("sold", **options)),
}


def context() -> Context:
    """Make a context whose call is never reached."""
    return object.__new__(Context)


def rows(place: str) -> list[tuple[str, str]]:
    """List the names that are looked for at a place, with their remedies."""
    return [*ELSEWHERE[place].items()]


def test_the_table_covers_both_frameworks():
    """Every place that a program of theirs reaches for has names, some hundreds altogether."""
    assert set(ELSEWHERE) == {"antiphon", "commands", *CLASSES, *PLACES}
    assert sum(len(rows(place)) for place in ELSEWHERE) > 150


@pytest.mark.parametrize(("place", "name", "remedy"), [(place, *row) for place in CLASSES for row in rows(place)])
def test_an_attribute_says_what_to_use(place: str, name: str, remedy: str):
    """It is missing as before, so programs that look for it find nothing; and it hides no name of ours."""
    cls = CLASSES[place]
    made = {CallToolResult: CallToolResult(content=[]), Elicited: Elicited("accept", None)}
    one = made[cls] if cls in made else object.__new__(cls)
    with pytest.raises(AttributeError) as caught:
        getattr(one, name)
    assert str(caught.value) == f"{place} has no {name}; here: {remedy}"
    assert not hasattr(cls, name)
    assert name not in dir(one)
    assert not re.search(rf"\b(def|self\.) ?{name}\b(\(| =|:)", inspect.getsource(cls))


@pytest.mark.parametrize(("place", "name", "remedy"), [(place, *row) for place in PLACES for row in rows(place)])
def test_an_argument_says_what_to_use(place: str, name: str, remedy: str):
    """It is refused in the words of the user, and never by the name of a function within."""
    with pytest.raises(ConfigError) as caught:
        PLACES[place](**{name: None})
    expected = f"takes no {name}=; here: " if place != "server.run()" else f"'{name}'; here: "
    assert str(caught.value).endswith(expected + remedy)


@pytest.mark.parametrize(("name", "remedy"), rows("antiphon"))
def test_an_import_says_what_to_use(name: str, remedy: str):
    """The sentence arrives in both forms of the import."""
    with pytest.raises(ImportError, match=re.escape(f"antiphon has no {name}; here: {remedy}")):
        exec(f"from antiphon import {name}", {})
    with pytest.raises(ImportError, match=f"antiphon has no {name}"):
        getattr(antiphon, name)


def test_a_public_name_of_another_module_is_found():
    """What is imported from the package is looked for in its modules."""
    with pytest.raises(ImportError, match=r"ResourceTemplate is in antiphon\.types"):
        exec("from antiphon import ResourceTemplate", {})
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from antiphon import Nothing", {})
    assert not hasattr(antiphon, "nothing")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("from antiphon.server import FastMCP", "antiphon has no FastMCP; here: Server"),
        ("from antiphon.client import ClientSession", "antiphon has no ClientSession; here: Client"),
        ("from antiphon.server import ToolError", "ToolError is in antiphon$"),
        ("from antiphon.host import ask_on_page", r"ask_on_page of antiphon\.web"),
        ("from antiphon import get_access_token", "ctx.request.claims"),
    ],
)
def test_a_name_is_also_looked_for_from_the_modules(line: str, said: str):
    """Where people remember it to be from, and the functions too."""
    with pytest.raises(ImportError, match=said):
        exec(line, {})


@pytest.mark.parametrize("name", ["list_tools", "call_tool"])
def test_a_decorator_of_the_low_level_server_is_told_its_place(name: str):
    """The official SDK has a ``Server``, too, so that only its decorators fail."""
    with pytest.raises(AttributeError, match=r"in place of the decorator, server\.add_tool\("):
        getattr(Server("shop"), name)


def test_a_misspelt_argument_is_recognised():
    """The nearest name is proposed; without one, all are listed."""
    with pytest.raises(ConfigError, match=r"Server\(\) takes no instruction=; did you mean instructions=\?"):
        Server("shop", instruction="")
    with pytest.raises(ConfigError, match=r"server.prompt\(\) takes no zzz=; it takes name, title"):
        Server("shop").prompt(zzz=1)(rows)
    with pytest.raises(ConfigError, match=r"server.tool\(\) takes no structured_output=; here: structured="):
        Server("shop").add_tool(rows, structured_output=True)
    with pytest.raises(ConfigError, match=r"takes the rest by name, as in Server\('shop', instructions=\.\.\.\)"):
        Server("shop", "It sells hats.")
    with pytest.raises(ConfigError, match="the server first"):
        Server("shop").mount("api", Server("other"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("size", r"takes no size=; here: the tool's arguments are one dict: client.call_tool\("),
        ("tmeout", r"takes no tmeout=; did you mean timeout=\?"),
    ],
)
async def test_arguments_of_a_tool_are_told_their_place(name: str, said: str):
    """Nobody can list what a server's tools take, so any name may be meant as one of them."""
    with pytest.raises(ConfigError, match=said):
        await Client(Server("shop")).call_tool("price", **cast("Any", {name: 3}))


@pytest.mark.parametrize("place", ELSEWHERE)
def test_what_is_proposed_exists(place: str):
    """Methods of our classes, names of the package, and options."""
    for _, remedy in rows(place):
        for owner, name in re.findall(r"\b(server|ctx|client)\.(\w+)", remedy):
            cls = {"server": Server, "ctx": Context, "client": Client}[owner]
            assert hasattr(cls, name) or f"self.{name}:" in inspect.getsource(cls.__mro__[-2]) or name == "rounds"
        for name in re.findall(r"\b([A-Z]\w+)\(", remedy):
            homes = (antiphon, types, antiphon.server, antiphon.gateway)
            assert name in {*chain.from_iterable(home.__all__ for home in homes), "Caller"}
    functions = {
        "Client()": Client.__init__,
        "Server()": Server.__init__,
        "ctx.sample()": Context.sample,
        "client.call_tool()": Client.call_tool,
    }
    options = {
        name: {*inspect.signature(function).parameters, *AccessOptions.__annotations__}
        for name, function in functions.items()
    }
    options["server.tool()"] = {*ToolOptions.__annotations__}
    for name, remedy in rows(place):
        if (
            place in options
            and name not in dict(rows("server.run()"))
            and (named := re.match(r"(\w+)=(?! of)", remedy)) is not None
        ):
            assert named[1] in options[place], name


def test_a_result_says_what_to_use():
    """Also as its user meets it."""
    answer = CreateMessageResult(role="assistant", content=[], model="m")
    with pytest.raises(AttributeError, match=r"here: \.messages"):
        _ = Sample([], answer, None).history


def served(**options: Any) -> Server:
    """Make a server with these options."""
    return Server("shop", **options)


def connecting(**options: Any) -> Client:
    """Make a client with these options."""
    return Client(Server("shop"), **options)


def gateway(**options: Any) -> Gateway:
    """Make one with a host, unless that is an option."""
    return Gateway({"shop": Server("shop")}, **{"host": Host(reviewer=None), **options})


@pytest.mark.parametrize(
    ("make", "name", "wrong", "said"),
    [
        (served, "instructions", 5, "must be str or None, got 5"),
        (served, "parked_for", "600", "must be float, got '600'"),
        (served, "max_parked", 1.5, "must be int, got 1.5"),
        (served, "error_details", "no", "must be bool, got 'no'"),
        (served, "cache_ttl", -1, "must be at least 0, got -1"),
        (served, "cache_scope", "all", "is one of public, private, not 'all'"),
        (served, "declares", "tools", "is a list of tools, prompts, resources, completions, not 'tools'"),
        (connecting, "answer_timeout", "5", "must be float or None, got '5'"),
        (connecting, "limits", 5, "must be RoundLimits, got 5"),
        (served, "declares", 5, "is a list of tools, prompts, resources, completions, not 5"),
        (Host, "review_timeout", "5", "must be float or None, got '5'"),
        (Host, "review", "nevr", "is one of ask, never, not 'nevr'"),
        (Host, "review_response", "alway", "is one of never, flagged, always, not 'alway'"),
        (gateway, "host", "echo", "must be Host or None, got 'echo'"),
        (gateway, "quick_cancel", "1", "must be float, got '1'"),
    ],
)
def test_an_option_of_another_type_is_named_at_once(make: Any, name: str, wrong: object, said: str):
    """A text from the environment, say; it failed at some later call, or passed for something else."""
    with pytest.raises(ConfigError) as caught:
        make(**{name: wrong})
    assert str(caught.value).endswith(f"({name}=) {said}")


@pytest.mark.parametrize("number", [5, 5.0, Fraction(5), True])
def test_numbers_of_any_kind_are_numbers(number: Any):
    """As callers may have computed them."""
    assert Client(Server("shop"), timeout=number).timeout == number


@pytest.mark.parametrize("place", ["as_proxy", "create_proxy"])
def test_a_server_elsewhere_is_mounted_by_a_proxy(place: str):
    """``mount`` refuses the target itself."""
    remedies = {**dict(rows("server.mount()")), **dict(rows("antiphon"))}
    assert "server.mount(Proxy(target))" in remedies[place]


def test_a_constructor_that_a_program_has_wrapped_takes_what_it_took():
    """As instrumentation does it: the annotations are its own, and need not be text."""

    class Traced:
        def __init__(self, name, **options) -> None: ...

    Traced.__init__.__annotations__.update(name=str, options=Any)
    Traced.__init__.__annotations__["return"] = None
    check_argument_types(Traced, {"name": "shop"})
