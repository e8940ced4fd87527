"""What is read from signatures, and what is refused."""

from __future__ import annotations

import functools
import subprocess
import sys
import typing
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest

from antiphon import Client, Server
from antiphon.errors import ConfigError
from antiphon.server.context import Context
from antiphon.server.functions.signature import (
    REQUIRED,
    Docs,
    Signature,
    is_context,
    members_of,
    read_docstring,
    read_signature,
)

if TYPE_CHECKING:
    from decimal import Decimal

OLD_OPTIONAL: Any = typing.Optional


def read(function) -> Signature:
    """Read a function as a tool's."""
    return read_signature(function, noun="tool")


def names(signature: Signature) -> list[str]:
    """List the arguments' names."""
    return [parameter.name for parameter in signature.parameters]


def test_parameters_have_types_and_defaults():
    """String annotations are evaluated, metadata is kept."""

    async def describe(product: Annotated[str, msgspec.Meta(min_length=1)], count: int = 3, *, anything=None) -> str:
        """Describe a product."""
        return product * count

    signature = read(describe)
    product, count, anything = signature.parameters
    assert (product.annotation, product.required) == (Annotated[str, msgspec.Meta(min_length=1)], True)
    assert (count.annotation, count.default) == (int, 3)
    assert (anything.annotation, anything.default) == (Any, None)
    assert (signature.name, signature.returns, signature.is_async) == ("describe", str, True)
    assert signature.docstring == "Describe a product."
    assert signature.place.startswith('tool "describe" (')


@pytest.mark.parametrize("annotation", [Context, Context | None, OLD_OPTIONAL[Context], Annotated[Context, "x"]])
def test_the_context_is_no_argument(annotation):
    """However its type is written."""

    def function(text, ctx) -> None: ...

    function.__annotations__ = {"text": str, "ctx": annotation, "return": None}
    signature = read(function)
    assert (names(signature), signature.context) == (["text"], "ctx")


def test_a_subclass_of_the_context_is_the_context():
    """Authors may extend it."""

    class Mine(Context): ...

    assert is_context(Mine)
    assert not is_context(str)
    assert not is_context(Context | str)


def test_a_local_type_is_found():
    """With postponed annotations, a class of the enclosing function is only a name."""

    class Item(msgspec.Struct):
        price: float

    def function(item: Item, *, several: list[Item]) -> Item:
        return item

    signature = read(function)
    assert [p.annotation for p in signature.parameters] == [Item, list[Item]]
    assert signature.returns is Item


def test_a_context_imported_for_checkers_is_known():
    """Linters move type-only imports under TYPE_CHECKING."""
    scope: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef f(x: int, ctx: Context | None = None): ...", scope)
    signature = read(scope["f"])
    assert (names(signature), signature.context) == (["x"], "ctx")


def test_another_type_imported_for_checkers_is_refused():
    """The message says what to do."""

    def function(x: Decimal) -> None: ...

    with pytest.raises(ConfigError, match=r"name 'Decimal' is not defined.*import it at run time"):
        read(function)


@pytest.mark.parametrize("annotation", ["not a type!", "1 / 0", "list[Context, absent!]"])
def test_an_annotation_that_cannot_be_evaluated_is_refused(annotation):
    """Whatever is wrong with it."""

    def function(x, y) -> None: ...

    function.__annotations__["x"] = annotation
    function.__annotations__["y"] = "NotThere"
    with pytest.raises(ConfigError, match=r"cannot be evaluated|needs it"):
        read(function)


def test_what_a_partial_binds_is_no_argument():
    """And the function inside gives name and docstring."""

    def greet(greeting: str, name: str, mark: str = "!") -> str:
        """Greet."""
        return greeting + name + mark

    signature = read(partial(greet, "Hi ", mark="?"))
    assert (names(signature), signature.name, signature.docstring) == (["name"], "greet", "Greet.")


class Greeter:
    """A class."""

    def greet(self, name: str) -> str:
        """Greet."""
        return name

    @classmethod
    def of_class(cls, name: str) -> str:
        return name

    async def __call__(self, name: str) -> str:
        """Be called."""
        return name


class Titled(Greeter):
    __name__ = "titled"


@pytest.mark.parametrize(
    ("function", "name", "docstring", "is_async"),
    [
        (Titled(), "titled", "Be called.", True),
        (functools.update_wrapper(Greeter(), Greeter().greet), "greet", "Greet.", False),
        (Greeter().greet, "greet", "Greet.", False),
        (Greeter.of_class, "of_class", None, False),
        (Greeter(), "Greeter", "Be called.", True),
        (partial(Greeter()), "Greeter", "Be called.", True),
    ],
)
def test_methods_and_callable_objects_work(function, name, docstring, is_async):
    """Without ``self``."""
    signature = read(function)
    assert names(signature) == ["name"]
    assert (signature.name, signature.docstring, signature.is_async) == (name, docstring, is_async)
    assert signature.parameters[0].annotation is str


def test_a_wrapper_shows_the_signature_inside():
    """As ``functools.wraps`` intends; but it is not async if the wrapper is not."""

    async def inner(x: int) -> int:
        """Do it."""
        return x

    @wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    signature = read(outer)
    assert (names(signature), signature.returns, signature.is_async) == (["x"], int, False)


def positional(x: int, /) -> None:
    """Be refused."""


def several(*items: int) -> None:
    """Be refused."""


def anything(**options: int) -> None:
    """Be refused."""


def untyped(ctx) -> None:
    """Be refused."""


def twice(a: Context, b: Context) -> None:
    """Be refused."""


def generate():
    """Be refused."""
    yield 1


async def generate_async():
    """Be refused."""
    yield 1


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (positional, "parameter 'x' is positional-only; remove the '/'"),
        (several, r"\*items has no name on the wire; take a list"),
        (anything, r"\*\*options has no schema"),
        (untyped, "'ctx' has no type; write ctx: Context"),
        (twice, "'a' and 'b' both take the context"),
        (generate, "yields: return a list instead"),
        (generate_async, "yields: return a list instead"),
        (Greeter.greet, "not bound to an object: register the bound method"),
        (Greeter, "type is not a function"),
        (3, "int is not a function"),
        (dict.fromkeys, "positional-only"),
        (max, "has no signature: wrap it in a function of your own"),
    ],
)
def test_what_cannot_be_called_by_name_is_refused(function, problem):
    """Naming the function and the remedy."""
    with pytest.raises(ConfigError, match=problem) as caught:
        read(function)
    assert 'tool "' in str(caught.value)


def test_a_missing_return_annotation_is_told_apart_from_none():
    """``REQUIRED`` stands for nothing at all."""

    def silent(): ...

    def none() -> None: ...

    assert read(silent).returns is REQUIRED
    assert read(none).returns is type(None)


def test_members_of_unions_are_listed_flat():
    """Whatever the notation."""
    assert members_of(Annotated[int | Annotated[str, 1] | None, 2]) == (int, str, type(None))
    assert members_of(OLD_OPTIONAL[int]) == (int, type(None))
    assert members_of(list[int]) == (list[int],)


def only_by_place(ctx: Context, /) -> None:
    """Take the context by place only."""


def many(*ctx: Context) -> None:
    """Take any number of contexts."""


def named(**ctx: Context) -> None:
    """Take contexts by any name."""


@pytest.mark.parametrize(
    ("function", "why"), [(only_by_place, "positional-only"), (many, r"\*ctx"), (named, r"\*\*ctx")]
)
def test_a_context_that_cannot_be_passed_by_name_is_refused(function: Any, why: str) -> None:
    """When it is decorated, instead of at every call."""
    with pytest.raises(ConfigError, match=why):
        read_signature(function, noun="tool")


def test_a_name_in_the_place_of_a_function_is_told_how_names_are_given() -> None:
    """Others write ``@tool("name")``."""
    wrong: Any = "describe"
    with pytest.raises(ConfigError, match="name='describe'"):
        read_signature(wrong, noun="tool")


def bound(a: int, b: str = "x") -> str:
    """Join two values."""
    return f"{a}{b}"


async def bound_later(a: int, b: str = "x") -> str:
    """Join two values."""
    return f"{a}{b}"


class Joins:
    """Joins values in several ways."""

    def method(self, a: int, b: str = "x") -> str:
        """Join two values."""
        return f"{a}{b}"

    def __call__(self, b: str) -> str:
        return f"1{b}"

    part = functools.partialmethod(method, 1)
    named = functools.partialmethod(method, a=1)

    @functools.singledispatchmethod
    def dispatched(self, a: int) -> str:
        """Choose by type."""
        return str(a)


@functools.singledispatch
def dispatched(a: int) -> str:
    """Choose by type."""
    return str(a)


def dressed(function: Any, *values: Any, **named: Any) -> Any:
    """Bind arguments, and keep the name and the documentation."""
    return functools.update_wrapper(functools.partial(function, *values, **named), function)


def decorated(function: Any) -> Any:
    """Wrap a function as decorators do."""

    @wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        return function(*values, **named)

    return call


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (functools.partial(bound, 1), {"b": "y"}, "1y"),
        (decorated(functools.partial(bound, 1)), {"b": "y"}, "1y"),
        (decorated(dressed(bound, b="z")), {"a": 1}, "1z"),
        (decorated(decorated(dressed(bound_later, 1))), {"b": "y"}, "1y"),
        (dressed(decorated(bound), b="z"), {"a": 1}, "1z"),
        (functools.partial(bound, b="z"), {"a": 1}, "1z"),
        (dressed(bound, 1), {"b": "y"}, "1y"),
        (dressed(bound, b="z"), {"a": 1}, "1z"),
        (dressed(bound_later, 1), {"b": "y"}, "1y"),
        (dressed(Joins().method, 1), {"b": "y"}, "1y"),
        (functools.partial(dressed(bound, 1), b="q"), {}, "1q"),
        (dressed(dressed(bound, 1), b="q"), {}, "1q"),
        (dressed(Joins()), {"b": "y"}, "1y"),
        (Joins().part, {"b": "y"}, "1y"),
        (Joins().named, {"b": "y"}, "1y"),
        (Joins(), {"b": "y"}, "1y"),
    ],
)
async def test_bound_arguments_are_not_in_the_schema(function, given, expected):
    """As a tool, prompt and resource template: only arguments that are left to pass are there."""
    server = Server("s")
    server.tool(function, name="t", description="d")
    server.prompt(function, name="p", description="d")
    async with Client(server) as client:
        (tool,) = [tool async for tool in client.tools()]
        assert set(tool.input_schema.get("properties", {})) == set(given)
        assert (await client.call_tool("t", given)).text == expected
        prompt = await client.get_prompt("p", {name: str(value) for name, value in given.items()})
        assert prompt.messages[0].content.text == expected
    if given:
        (name,) = given
        server.resource(f"x://r/{{{name}}}")(function)
        async with Client(server) as client:
            contents = (await client.read_resource(f"x://r/{given[name]}")).contents
            assert contents[0].text == expected


@pytest.mark.parametrize(
    "function", [dispatched, Joins().dispatched, functools.partial(dispatched), decorated(dispatched)]
)
def test_a_function_that_dispatches_by_position_is_refused(function):
    """It cannot be called with named arguments."""
    with pytest.raises(ConfigError, match="by the type of its first argument"):
        read_signature(function, noun="tool")


GOOGLE = """Describe a product.

    Longer text.

    Args:
        product: Its name,
            as in the shop.
        count (int): How many.

    Returns:
        The description.

    Raises:
        ValueError: Never mind.

    Example:
        >>> describe("sweater")
    """

NUMPY = """Describe a product.

    Parameters
    ----------
    product : str
        Its name,
        as in the shop.
    count
        How many.

    Returns
    -------
    str
        The description.
    """

SPHINX = """Describe a product.

    :param str product: Its name,
        as in the shop.
    :param count: How many.
    :type count: int
    :returns: The description.
    :raises ValueError: Never mind.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_arguments_are_found_in_every_style(text):
    """Each argument's words, on one line."""
    assert read_docstring(text).arguments == {"product": "Its name, as in the shop.", "count": "How many."}


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_the_description_keeps_what_a_model_can_use(text):
    """Results stay; arguments and exceptions, which are elsewhere or not for models, go."""
    description = read_docstring(text).description or ""
    assert description.startswith("Describe a product.")
    assert "The description." in description
    assert "product:" not in description
    assert "How many" not in description
    assert "ValueError" not in description


def test_examples_stay_as_they_are_written():
    """A section behind the arguments is kept with its layout."""
    assert (read_docstring(GOOGLE).description or "").endswith('Example:\n    >>> describe("sweater")')


def test_text_without_arguments_is_the_description():
    """Nothing is parsed, and only the indentation goes."""
    assert read_docstring("First.\n\n    Returns:\n        x").description == "First.\n\nReturns:\n    x"


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_no_text_is_no_description(text):
    """An empty docstring says nothing."""
    assert read_docstring(text) == Docs(description=None, arguments={})


def test_only_arguments_is_no_description():
    """A docstring may hold nothing else."""
    assert read_docstring("\n    Args:\n        x: The x.\n    ") == Docs(description=None, arguments={"x": "The x."})


def test_the_parser_loads_only_when_it_is_needed():
    """Importing and reading plain text does not cost its 30 ms."""
    program = (
        "import sys; from antiphon.server.functions.signature import read_docstring; read_docstring('Plain.');"
        "print('docstring_parser' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
