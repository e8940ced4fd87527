"""``antiphon gateway``: the servers of a configuration as one, as a host would start it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from antiphon import Client, OAuth
from antiphon.cli.login_access import describe_sign_in, open_logins
from antiphon.client.connection.targets import Address
from antiphon.errors import InsufficientScope, PeerError, Unauthorized
from antiphon.host import Queue, open_store
from tests.cli.commands.test_serve import connected
from tests.cli.conftest import Cli
from tests.cli.program import COMMAND, SERVERS, SHOP, environment, in_process
from tests.support import plain_server
from tests.support.authority import Person, protected
from tests.support.issuer import Issuer
from tests.support.ports import free_port


def written(path: Path, **servers: object) -> Path:
    """Write a configuration as other hosts have it."""
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


PATIENT = "[gateway]\nlist_timeout = 60\n"
"""Has lists wait on a machine that is busy with other work."""


def patient(folder: Path) -> list[str]:
    """Return options of a gateway whose lists wait for servers that start slowly."""
    settings = folder / "patient.toml"
    settings.write_text(PATIENT)
    return ["--config", str(settings)]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_a_host_starts_it_and_finds_the_servers(tmp_path: Path, revision: str):
    """Over stdio, each tool under the name of its server; what the servers ask is answered there."""
    file = written(tmp_path / "mcp.json", shop={"command": sys.executable, "args": [plain_server.__file__]})
    command = [*COMMAND, "gateway", "--config", str(file), *patient(tmp_path), "--yes", "--provider", "echo"]
    entry = {"command": command[0], "args": command[1:], "env": environment(XDG_STATE_HOME=str(tmp_path))}
    async with Client(entry, revision=revision) as client:
        names = [tool.name async for tool in client.tools()]
        assert names
        assert all(name.startswith("shop__") for name in names)


@pytest.mark.parametrize("asks", ["call", "request"])
async def test_a_question_that_nobody_saw_is_named_in_the_result(tmp_path: Path, asks: str):
    """Without a browser: the page and the command that shows it, and no token that opens the page."""
    file, settings = (
        written(tmp_path / "mcp.json", shop={"command": sys.executable, "args": [SHOP]}),
        tmp_path / "a.toml",
    )
    allowed = '[[policy.rules]]\neffect = "allow"\nkind = "tool"\n' if asks == "request" else ""
    settings.write_text(f"{PATIENT}[defaults]\nreview_timeout = 0.5\n{allowed}")
    options = ["--config", str(file), "--config", str(settings), "--provider", "echo", "--review", "page"]
    variables = environment(XDG_STATE_HOME=str(tmp_path), BROWSER="")
    said: list[str] = []
    entry = {"command": COMMAND[0], "args": [*COMMAND[1:], "gateway", *options], "env": variables}
    async with Client(entry, errlog=said.append) as client:
        try:
            told = (await client.call_tool("shop__describe", {"product": "tea"})).text
        except PeerError as error:
            told = error.message
    assert re.search(r"it waited on the review page at http://127\.0\.0\.1:\d+; run antiphon review", told), told
    [token] = re.findall(r"Review page: http://\S+/open\?token=(\S+)", "\n".join(said))
    assert token not in told


async def test_a_profile_chooses_servers_and_tools(tmp_path: Path):
    """Of ``antiphon.toml``: a deny wins, names by hand count, and what is denied cannot be called."""
    shop = {"command": sys.executable, "args": [SHOP]}
    file = written(tmp_path / "mcp.json", shop=shop, other=shop)
    settings = tmp_path / "antiphon.toml"
    settings.write_text(
        f'{PATIENT}[gateway.servers.shop]\ntools = ["*", "!describe"]\nprefix = "s"\n'
        'rename = { price = "how_much" }\n'
        '[gateway.profiles.work]\nonly = ["shop"]\n'
    )
    command = ["-m", "antiphon", "gateway", "--config", str(file), "--config", str(settings), "--profile", "work"]
    entry = {
        "command": sys.executable,
        "args": [*command, "--yes", "--provider", "echo"],
        "env": environment(XDG_STATE_HOME=str(tmp_path)),
    }
    async with Client(entry) as client:
        names = {tool.name async for tool in client.tools()}
        assert "how_much" in names
        assert all(name.startswith("s__") for name in names - {"how_much"})
        assert "s__describe" not in names
        with pytest.raises(PeerError, match="Unknown tool: s__describe"):
            await client.call_tool("s__describe", {})
        part = settings.with_suffix(".part")
        part.write_text(
            '[gateway.profiles.work]\nonly = ["other"]\n[gateway.profiles.work.servers.other]\nprefix = "o"\n'
        )
        async with client.listen(tools=True) as changes:
            part.replace(settings)
            async with asyncio.timeout(60):
                while not all(name.startswith("o__") for name in names):
                    await anext(changes)
                    names = {tool.name async for tool in client.tools()}


async def test_settings_for_a_server_that_is_not_there_are_named(tmp_path: Path):
    """A misspelt name would leave a tool callable that the file denies; a server of another file is known."""
    shop = {"command": sys.executable, "args": [SHOP]}
    file = written(tmp_path / "mcp.json", shop=shop, other=shop)
    (tmp_path / "antiphon").mkdir()
    written(tmp_path / "antiphon" / "servers.json", elsewhere=shop)
    settings = tmp_path / "antiphon.toml"
    settings.write_text(
        f'{PATIENT}[gateway.servers.shopp]\ntools = ["*", "!describe"]\n[gateway.servers.other]\nprefix = "o"\n'
        '[gateway.servers.elsewhere]\nprefix = "e"\n[gateway.profiles.work.servers.files]\nprefix = "f"\n'
    )
    options = ["--config", str(file), "--config", str(settings), "--only", "shop", "--yes", "--provider", "echo"]
    said: list[str] = []
    entry = {
        "command": sys.executable,
        "args": ["-m", "antiphon", "gateway", *options],
        "env": environment(XDG_STATE_HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path)),
    }
    async with Client(entry, errlog=said.append) as client:
        assert "shop__describe" in {tool.name async for tool in client.tools()}
    warned = [line for line in "\n".join(said).splitlines() if line.startswith("antiphon.toml: [gateway.")]
    why = "holds for no server: there is none of that name"
    assert warned == [
        f"antiphon.toml: [gateway.servers.shopp] {why}; did you mean 'shop'?",
        f"antiphon.toml: [gateway.profiles.work.servers.files] {why}; there are: shop, other, elsewhere",
    ]


async def test_a_change_of_the_file_is_taken_up_while_it_runs(tmp_path: Path):
    """And what was listed is kept for the next gateway, readable for nobody else."""
    server = {"command": sys.executable, "args": [plain_server.__file__]}
    file = written(tmp_path / "mcp.json", shop=server)
    command = [*COMMAND, "gateway", "--config", str(file), *patient(tmp_path), "--yes", "--provider", "echo"]
    entry = {"command": command[0], "args": command[1:], "env": environment(XDG_STATE_HOME=str(tmp_path))}
    async with Client(entry) as client, client.listen(tools=True) as changes:
        assert {tool.name.partition("__")[0] async for tool in client.tools()} == {"shop"}
        written(file, shop=server, other=server)
        found = {"shop"}
        async with asyncio.timeout(60):
            while found != {"shop", "other"}:
                await anext(changes)
                found = {tool.name.partition("__")[0] async for tool in client.tools()}
    [kept] = (tmp_path / "antiphon" / "lists").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there are no servers in"),
        (("--config", "none.json"), "none.json: No such file"),
        (("--config", "mcp.json", "--only", "other"), "there is no server 'other' in mcp.json"),
        (("--config", "mcp.json", "--http", "0.0.0.0:9000"), "--issuer URL --public-url URL"),
        (("--config", "mcp.json", "--issuer", "https://id.example"), "--issuer: for a network only; add --http"),
        (("--config", "mcp.json", "--http", "0:9000", "--scope", "a"), "name who issues them, --issuer"),
        (("--config", "mcp.json", "--http", "0:9000", "--issuer", "https://id.example"), "--public-url"),
        (("--config", "mcp.json", "--http", "here"), "is no address"),
        (("--config", "mcp.json", "--review", "terminal"), "over stdio the terminal is the protocol's"),
        (("--config", "mcp.json", "--names", "short"), "is not one of"),
        (("--config", "mcp.json", "--profile", "home"), "there is no profile 'home'; there are: none"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(arguments: tuple[str, ...], message: str, cli: Cli, tmp_path: Path):
    """One sentence, and nothing is started."""
    written(tmp_path / "mcp.json", shop={"command": sys.executable, "args": [SHOP]})
    done = cli("gateway", *arguments)
    assert done.code == 2
    assert message in done.err


async def test_who_connects_at_once_when_an_address_is_said_is_served(tmp_path: Path):
    """A script waits for that line; it names the port that the system has chosen."""
    file = written(tmp_path / "mcp.json", shop={"command": sys.executable, "args": [plain_server.__file__]})
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "gateway", "--config", str(file), *patient(tmp_path), "--http", "127.0.0.1:0",
        "--yes", "--provider", "echo", cwd=tmp_path, env=environment(XDG_STATE_HOME=str(tmp_path)),
        stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            _, _, url = (await process.stderr.readline()).decode().partition(" over ")
            async with Client(url.split()[0].rstrip(".")) as client:
                assert [tool.name async for tool in client.tools()]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


@asynccontextmanager
async def on_a_network(
    folder: Path, issuer: Issuer, *options: str, kind: str = "http", **servers: object
) -> AsyncIterator[Served]:
    """Serve the servers to clients of an issuer; ``[auth]`` says which. ``kind``: the option that names the place."""
    file = written(folder / "mcp.json", **servers)
    place = f"127.0.0.1:{free_port()}"
    url = f"http://{place}/{'mcp' if kind == 'http' else kind}"
    settings = folder / "gateway.toml"
    settings.write_text(f"[auth]\nissuers = ['{issuer.url}']\naudience = 'ours'\nurl = '{url}'\n{PATIENT}")
    command = [*COMMAND, "gateway", "--config", str(file), "--config", str(settings), f"--{kind}", place, *options]
    env = environment(XDG_STATE_HOME=str(folder))
    process = await asyncio.create_subprocess_exec(
        *command, "--yes", "--provider", "echo", cwd=folder, env=env, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    made = Served(url.replace("http", "ws", 1) if kind == "ws" else url)
    try:
        assert process.stderr is not None
        assert url in (await process.stderr.readline()).decode()
        yield made
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        _, said = await process.communicate()
        made.said = said.decode()


class Served:
    """A gateway on a network: where it is, and what it has said when it has ended."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.said = ""


@pytest.mark.parametrize(("kind", "revision"), [("http", "2026-07-28"), ("sse", "2024-11-05"), ("ws", "2025-11-25")])
async def test_on_a_network_only_those_are_served_who_have_signed_in(kind: str, revision: str, tmp_path: Path):
    """``[auth]`` says where; options of the command line go before it. A client without a token learns where to go."""
    shop = {"command": sys.executable, "args": [SHOP]}
    use = ("--scope", "mcp:use")
    async with Issuer().open() as issuer, on_a_network(tmp_path, issuer, *use, kind=kind, shop=shop) as gateway:
        issuer.metadata = {"token_endpoint": f"{issuer.url}/token"}
        token = issuer.token(aud="ours", scope="mcp:use")
        client = await connected(gateway.url, revision, auth=token)
        assert [tool.name async for tool in client.tools()]
        await client.close()
        for auth, error in ((None, Unauthorized), (issuer.token(aud="ours"), InsufficientScope)):
            with pytest.raises(error):
                await Client(gateway.url, auth=auth, revision=revision).connect()
        assert issuer.url in await describe_sign_in(Address(url=gateway.url))


async def test_over_http_each_client_has_logins_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The user's own, and that of another client, are lent to nobody; what fails without one says how to make it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with Issuer().open() as issuer, protected() as resource:
        for principal in (None, f"{issuer.url} sub:ann"):
            signs_in = OAuth(store=open_logins(principal), open_page=Person())
            async with Client(resource.url, auth=signs_in) as client:
                await client.call_tool("echo", {})
        async with on_a_network(tmp_path, issuer, remote={"url": resource.url}) as gateway:
            ann = await connected(gateway.url, "2026-07-28", auth=issuer.token(aud="ours", sub="ann"))
            assert (await ann.call_tool("remote__echo", {})).text == "done"
            async with Client(gateway.url, auth=issuer.token(aud="ours", sub="bob")) as bob:
                assert [tool.name async for tool in bob.tools()] == []
            await ann.close()
        assert len(resource.authority.clients) == 2
        assert f"antiphon login {resource.url} --for '{issuer.url} sub:bob'" in gateway.said


def test_a_projects_file_starts_nothing_before_it_is_trusted(cli: Cli, tmp_path: Path):
    """It came with the project."""
    written(tmp_path / ".mcp.json", shop={"command": sys.executable, "args": [SHOP]})
    done = cli("gateway")
    assert done.code == 2
    assert "antiphon trust add" in done.err


@pytest.mark.parametrize(
    ("place", "options", "setting", "seen"),
    [
        ("config/antiphon/servers.json", [], "host", "given"),
        ("config/antiphon/servers.json", [], "minimal", None),
        (".mcp.json", [], "host", None),
        (".mcp.json", ["--environment"], "host", "given"),
        (".mcp.json", ["--environment"], "minimal", None),
    ],
)
async def test_servers_get_the_environment_that_the_host_gave(
    tmp_path: Path, place: str, options: list[str], setting: str, seen: str | None
):
    """A project's servers only if a person has trusted its file with that; ``minimal`` holds for all."""
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    written(file, s={"command": sys.executable, "args": [plain_server.__file__]})
    (tmp_path / "host.toml").write_text(f'[gateway]\nenvironment = "{setting}"\n')
    env = environment(A_VARIABLE="given", XDG_STATE_HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / "config"))
    if place == ".mcp.json":
        trusting = await asyncio.create_subprocess_exec(
            *COMMAND, "trust", "add", *options, place, cwd=tmp_path, env=env, stdout=asyncio.subprocess.DEVNULL
        )
        assert await trusting.wait() == 0
    command = [*COMMAND[1:], "gateway", "--config", "host.toml", "--yes", "--provider", "echo"]
    async with Client({"command": COMMAND[0], "args": command, "env": env, "cwd": str(tmp_path)}) as client:
        assert json.loads((await client.call_tool("s__look")).text)["variable"] == seen


async def test_servers_behind_it_get_tokens_for_keys_where_that_is_configured(tmp_path: Path):
    """``[gateway] model_api = true``: each server that is started has the address of the endpoint, and no key."""
    theirs = {"command": sys.executable, "args": [str(SERVERS / "theirs.py")], "env": {"OPENAI_API_KEY": "sk-real"}}
    file, settings = written(tmp_path / "mcp.json", theirs=theirs), tmp_path / "host.toml"
    settings.write_text("[gateway]\nmodel_api = true\n")
    options = ["--config", str(file), "--config", str(settings), "--yes", "--provider", "echo"]
    command = ["-m", "antiphon", "gateway", *options]
    entry = {"command": sys.executable, "args": command, "env": environment(XDG_STATE_HOME=str(tmp_path))}
    async with Client(entry) as client:
        shown = (await client.call_tool("theirs__vendor", {})).structured_content
    assert shown["address"].startswith("http://127.0.0.1:")
    assert shown["key"].startswith("sk-antiphon-")


RULES = """
[[policy.rules]]
effect = "deny"
when = 'tool == "price" && args.product == "tea"'

[[policy.rules]]
effect = "allow"
when = 'args.product.startsWith("t")'
"""


async def test_rules_on_arguments_decide_about_calls(tmp_path: Path):
    """Allowed, denied, and a person is asked where it is unclear whether the allowing rule matches."""
    file = written(tmp_path / "mcp.json", shop={"command": sys.executable, "args": [SHOP]})
    settings = tmp_path / "antiphon.toml"
    settings.write_text(PATIENT + "[defaults]\nreview_timeout = 0.5\n" + RULES)
    options = ["--config", str(file), "--config", str(settings), "--provider", "echo", "--review", "queue"]
    entry = {
        "command": COMMAND[0],
        "args": [*COMMAND[1:], "gateway", *options],
        "env": environment(XDG_STATE_HOME=str(tmp_path)),
    }
    async with Client(entry) as client:
        allowed = await client.call_tool("shop__price", {"product": "towel", "pieces": 1})
        denied = await client.call_tool("shop__price", {"product": "tea"})
        unclear = await client.call_tool("shop__price", {"product": 5})
    assert not allowed.is_error
    assert denied.is_error
    assert "the policy of this host refuses it" in denied.text
    assert unclear.is_error
    assert "nobody decided in time" in unclear.text


@pytest.mark.parametrize(
    ("words", "expected", "is_error"),
    [
        (("approve", "--arguments", '{"product": "coffee", "pieces": 2}'), "coffee: 2 at 0.0 off, standard", False),
        (("deny", "--respond", "Ask me on Monday"), "Ask me on Monday", False),
        (("deny", "--reason", "Too dear", "--tell"), "The reason: Too dear", True),
    ],
)
async def test_a_person_edits_answers_or_refuses_a_call(
    tmp_path: Path, words: tuple[str, ...], expected: str, is_error: bool
):
    """From another process, while the agent waits; the result says what a person did."""
    file = written(tmp_path / "mcp.json", shop={"command": sys.executable, "args": [SHOP]})
    settings, store = tmp_path / "antiphon.toml", str(tmp_path / "s.sqlite")
    settings.write_text(f"{PATIENT}[review]\nundo = 0\n")
    options = ["--config", str(file), "--config", str(settings), "--provider", "echo", "--review", "queue"]
    entry = {
        "command": COMMAND[0],
        "args": [*COMMAND[1:], "gateway", *options, "--store", store],
        "env": environment(XDG_STATE_HOME=str(tmp_path)),
    }
    async with Client(entry) as client, aclosing(open_store(store)) as opened:
        calling = asyncio.create_task(client.call_tool("shop__price", {"product": "tea", "pieces": 1}))
        queue = Queue(opened)
        async with aclosing(queue.changes()) as changes:
            async for _ in changes:
                if found := await queue.pending():
                    break
        named = f"{found[0].id}:{found[0].hash}"
        done = await asyncio.to_thread(
            in_process, "review", words[0], named, *words[1:], "--store", store, "--by", "anna"
        )
        assert done.code == 0, done.err
        result = await calling
    assert expected in result.text
    assert bool(result.is_error) is is_error
    assert ("A person changed" in result.text) is (words[0] == "approve")
