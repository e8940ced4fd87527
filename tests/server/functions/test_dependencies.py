"""Dependencies: made for each call, once in it, closed after it; no arguments, and nothing in a journal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Annotated, Any

import pytest

from antiphon import Context, Depends, Server, ToolError
from antiphon.errors import ConfigError
from antiphon.server import ServedTool
from antiphon.testing import connected
from antiphon.types import Tool
from tests.support.cluster import cluster
from tests.support.raw_client import text
from tests.support.tasking import tasking

REVISIONS = ("2025-11-25", "2026-07-28")


class Db:
    """A connection that counts how often one was opened, and says what became of it."""

    log: list[str]

    def __init__(self, log: list[str]) -> None:
        self.log = log
        log.append("open")


def opening(log: list[str]) -> Any:
    """Return a dependency that opens a connection, and closes it after the call."""

    async def get_db() -> AsyncGenerator[Db]:
        db = Db(log)
        try:
            yield db
        except ToolError as error:
            log.append(f"roll back: {error}")
            raise
        finally:
            log.append("close")

    return get_db


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_dependency_is_open_while_the_function_runs_and_is_no_argument(revision: str) -> None:
    """The schema lacks it, a caller cannot give it, and it is closed when the function has returned."""
    server, log = Server("shop"), list[str]()

    @server.tool
    async def count(step: int, db: Annotated[Db, Depends(opening(log))]) -> int:
        """Count.

        Args:
            step: by how much.
            db: where.
        """
        db.log.append("run")
        return step

    async with connected(server, revision=revision) as client:
        [tool] = [tool async for tool in client.tools()]
        assert list(tool.input_schema["properties"]) == ["step"]
        assert (await client.call_tool("count", {"step": 1})).structured_content == {"result": 1}
        assert (await client.call_tool("count", {"step": 1, "db": {}})).is_error
    assert log == ["open", "run", "close"]


async def test_an_exception_reaches_the_dependency_before_it_is_closed() -> None:
    """So that it can roll back; the client is told of the exception as ever."""
    server, log = Server("shop"), list[str]()

    @server.tool
    def sell(db: Annotated[Db, Depends(opening(log))]) -> str:
        raise ToolError("sold out")

    async with connected(server) as client:
        result = await client.call_tool("sell")
    assert (result.is_error, result.text) == (True, "sold out")
    assert log == ["open", "roll back: sold out", "close"]


async def test_a_dependency_that_swallows_the_exception_is_named() -> None:
    """The call has no result then; it must not succeed with nothing."""
    server = Server("shop", error_details=True)

    async def get_db() -> AsyncGenerator[int]:
        with suppress(ToolError):
            yield 1

    @server.tool
    async def sell(db: Annotated[int, Depends(get_db)]) -> str:
        raise ToolError("sold out")

    async with connected(server) as client:
        result = await client.call_tool("sell")
    assert result.is_error
    assert "raise it again" in result.text


async def test_one_function_is_called_once_in_a_call_and_again_in_the_next() -> None:
    """Nested dependencies share it, too, unless one wants a value of its own."""
    server, log = Server("shop"), list[str]()
    get_db = opening(log)

    def get_users(db: Annotated[Db, Depends(get_db)]) -> Db:
        return db

    @server.tool
    async def same(
        db: Annotated[Db, Depends(get_db)],
        users: Annotated[Db, Depends(get_users)],
        own: Annotated[Db, Depends(get_db, use_cache=False)],
    ) -> list[bool]:
        return [users is db, own is db]

    async with connected(server) as client:
        for _ in range(2):
            assert (await client.call_tool("same")).structured_content == {"result": [True, False]}
    assert log == ["open", "open", "close", "close"] * 2


def get_name() -> str:
    """Return a name."""
    return "plain"


async def get_name_later() -> str:
    """Return a name."""
    return "async"


def yield_name() -> Generator[str]:
    """Yield a name."""
    yield "generator"


@contextmanager
def manage_name() -> Generator[str]:
    """Yield a name."""
    yield "manager"


@asynccontextmanager
async def manage_name_later() -> AsyncGenerator[str]:
    """Yield a name."""
    yield "async manager"


def give_name(name: str) -> str:
    """Return a name that is bound already."""
    return name


def give_awaitable() -> Any:
    """Return what has to be awaited, as a function that wraps another one does."""
    return asyncio.sleep(0, "awaitable")


Name = Annotated[str, Depends(get_name_later)]


class Named:
    """An object that is a dependency."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> str:
        return self.name

    async def yielding(self) -> AsyncGenerator[str]:
        yield self.name


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (get_name, "plain"),
        (get_name_later, "async"),
        (yield_name, "generator"),
        (manage_name, "manager"),
        (manage_name_later, "async manager"),
        (Named("object"), "object"),
        (Named("method").yielding, "method"),
        (partial(give_name, name="partial"), "partial"),
        (give_awaitable, "awaitable"),
    ],
)
async def test_anything_that_can_be_called_is_a_dependency(function: Any, name: str, *, inline: bool) -> None:
    """A function, plain or async, that returns or yields; what contextlib makes of one; an object; a method."""
    server = Server("shop")

    @server.tool(inline=inline)
    def tell(given: Annotated[str, Depends(function)]) -> str:
        return given

    depends: Any = Depends(function)

    @server.tool(inline=inline)
    def tell_default(given: str = depends) -> str:
        return given

    async with connected(server) as client:
        assert (await client.call_tool("tell")).text == name
        assert (await client.call_tool("tell_default")).text == name


@pytest.mark.parametrize("inline", [False, True])
async def test_a_plain_dependency_runs_where_a_plain_tool_would(*, inline: bool) -> None:
    """In a thread, or on the event loop for a tool that is inline; one that is async is always on the loop."""
    server = Server("shop")

    def find_thread() -> int:
        return threading.get_ident()

    def yield_thread() -> Generator[int]:
        yield threading.get_ident()

    async def find_loop() -> int:
        return threading.get_ident()

    @server.tool(inline=inline)
    async def compare(
        plain: Annotated[int, Depends(find_thread)],
        yielded: Annotated[int, Depends(yield_thread)],
        loop: Annotated[int, Depends(find_loop)],
    ) -> list[bool]:
        return [each == threading.get_ident() for each in (plain, yielded, loop)]

    async with connected(server) as client:
        found = (await client.call_tool("compare")).structured_content
        assert found == {"result": [inline, inline, True]}


async def test_a_dependency_that_several_need_is_made_before_all_of_them() -> None:
    """In the order of the parameters, the innermost first, and closed in the other order."""
    server, log = Server("shop"), list[str]()

    def keep(name: str) -> Any:
        def made(*needed: str) -> Generator[str]:
            log.append(f"{name}({', '.join(needed)})")
            yield name
            log.append(f"close {name}")

        return made

    def get_a() -> Generator[str]:
        yield from keep("a")()

    def get_b(a: Annotated[str, Depends(get_a)]) -> Generator[str]:
        yield from keep("b")(a)

    def get_c(b: Annotated[str, Depends(get_b)], a: Annotated[str, Depends(get_a)]) -> Generator[str]:
        yield from keep("c")(b, a)

    @server.tool
    async def tell(c: Annotated[str, Depends(get_c)], a: Annotated[str, Depends(get_a)]) -> str:
        return f"{c}{a}"

    async with connected(server) as client:
        assert (await client.call_tool("tell")).text == "ca"
    assert log == ["a()", "b(a)", "c(b, a)", "close c", "close b", "close a"]


async def test_prompts_resources_completers_and_raw_tools_have_dependencies() -> None:
    """Whatever function is registered."""
    server = Server("shop")

    @server.prompt
    def greet(who: str, name: Name) -> str:
        return f"{who} by {name}"

    @server.complete("greet", "who")
    def complete(value: str, name: Name) -> list[str]:
        return [value + name]

    @server.resource("shop://name")
    def read(name: Name) -> str:
        return name

    @server.resource("shop://{item}")
    def read_item(item: str, name: Name) -> str:
        return item + name

    def handle(arguments: dict[str, Any], name: Name) -> str:
        return f"{arguments} {name}"

    server.tools.add("raw", ServedTool.of_definition(Tool(name="raw", input_schema={"type": "object"}), handle))
    async with connected(server) as client:
        assert (await client.get_prompt("greet", {"who": "ann"})).messages[0].content.text == "ann by async"
        assert (await client.complete("greet", "who", "a")).completion.values == ["aasync"]
        assert (await client.read_resource("shop://name")).contents[0].text == "async"
        assert (await client.read_resource("shop://hat")).contents[0].text == "hatasync"
        assert (await client.call_tool("raw", {"a": 1})).text == "{'a': 1} async"


async def test_a_dependency_takes_the_context_where_its_function_does_not() -> None:
    """It may ask, even in a tool that looks as if it does not, at both eras."""
    server = Server("shop")

    async def get_wish(ctx: Context) -> str:
        return (await ctx.sample("What?")).text

    @server.tool
    def fulfil(wish: Annotated[str, Depends(get_wish)]) -> str:
        return f"here: {wish}"

    async def model(params: Any, origin: Any) -> str:
        return "a hat"

    for revision in REVISIONS:
        async with connected(server, sampling=model, revision=revision) as client:
            assert (await client.call_tool("fulfil")).text == "here: a hat"


async def test_a_replay_runs_dependencies_again_and_records_nothing_of_them() -> None:
    """The other process opens its own connection; what it returns is no JSON, and needs not be."""
    log = list[str]()

    async def tool(ctx: Context, db: Annotated[Db, Depends(opening(log))]) -> str:
        db.log.append("run")
        return (await ctx.sample("a?")).text + (await ctx.sample("b?")).text

    async with cluster(tool) as processes:
        round = await processes.begin(0)
        round = await processes.go_on(1, round, "A")
        assert text(await processes.go_on(1, round, "B")) == "AB"
        assert log == ["open", "run", "open", "run", "close"]
    assert log.count("close") == 2


async def test_a_task_has_dependencies() -> None:
    """They are closed when the task has ended, not when its handle was sent."""
    server, log = Server("shop"), list[str]()

    @server.tool(name="tool", task="allowed")
    async def work(db: Annotated[Db, Depends(opening(log))]) -> str:
        db.log.append("run")
        return "done"

    async with tasking(server) as client:
        assert await client.text(await client.start("tool")) == "done"
    assert log == ["open", "run", "close"]


async def test_arguments_are_checked_before_anything_is_opened() -> None:
    """A call that cannot run costs no connection."""
    server, log = Server("shop"), list[str]()

    @server.tool
    async def count(step: int, db: Annotated[Db, Depends(opening(log))]) -> int:
        return step

    async with connected(server) as client:
        assert (await client.call_tool("count", {"step": "x"})).is_error
    assert log == []


def test_what_nothing_fills_in_is_refused_when_the_tool_is_registered() -> None:
    """An argument of the tool is none of its dependencies; a function that needs itself never ends."""
    server = Server("shop")

    def get_user(name: str) -> str:
        return name

    def get_itself(other: Annotated[str, Depends(get_itself)]) -> str:
        return other

    for function, words in ((get_user, "'name' is no dependency"), (get_itself, "needs itself")):

        def tool(user: Annotated[str, Depends(function)]) -> str:
            return user

        with pytest.raises(ConfigError, match=words):
            server.tool(tool)
    with pytest.raises(ConfigError, match="takes a function"):
        Depends("get_db")  # pyright: ignore[reportArgumentType]


def test_code_of_dependencies_belongs_to_the_code_of_the_tool() -> None:
    """A call goes on only where its dependencies are the same."""
    server = Server("shop")

    def make(value: str, name: str) -> bytes:
        get_one, get_two = (lambda: 1), (lambda: 2)

        @server.tool(name=name)
        def tool(number: Annotated[int, Depends(get_one if value == "one" else get_two)]) -> int:
            return number

        found = server.tools.get(name)
        assert found is not None
        return found.code

    assert make("one", "a") == make("one", "b") != make("two", "c")
