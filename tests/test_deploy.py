"""The files in ``deploy``: they can be parsed, fit each other and the command line, and what they start serves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from antiphon import Client
from tests.support.child_server import listens
from tests.support.network import until
from tests.support.ports import free_port
from tests.support.raw_client import said

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
PATIENCE = 60
HARDENED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


async def sampler(_params: Any, _origin: Any) -> Any:
    """Answer as a model."""
    return said("Warm.")


def container() -> list[tuple[str, str]]:
    """Read the instructions of the Containerfile."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line)]


def instruction(name: str) -> str:
    """Return the last one of this name."""
    return [rest for word, rest in container() if word == name][-1]


def manifests() -> dict[str, Any]:
    """Read the manifests for Kubernetes, by kind."""
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def compose() -> Any:
    """Read the file for Compose."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def test_the_container_is_not_root_and_copies_what_there_is() -> None:
    """With numbers, which Kubernetes can compare, and a health check without a shell."""
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instruction("USER"))
    assert json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])[0] == "python"
    for word, rest in container():
        if word == "COPY" and "--from" not in rest:
            *sources, _ = shlex.split(rest)
            assert [name for name in sources if not (ROOT / name).exists()] == []


def test_the_replicas_of_compose_write_nothing_and_get_their_secrets_as_files() -> None:
    """Each of which is named."""
    services = compose()["services"]
    shop = services["shop"]
    assert (shop["read_only"], shop["cap_drop"]) == (True, ["ALL"])
    assert (ROOT / shop["build"]["dockerfile"]).exists()
    for service in services.values():
        assert set(service.get("secrets", ())) <= set(compose()["secrets"])
        assert set(service.get("depends_on", ())) <= set(services)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in compose()["volumes"] or (DEPLOY / source).exists()
    assert set(shop["environment"].values()) == {f"/run/secrets/{name}" for name in shop["secrets"]}
    assert "server shop:8000" in (DEPLOY / "nginx.conf").read_text(encoding="utf-8")


def test_the_manifests_fit_each_other() -> None:
    """Labels, ports and names; and there is no affinity to lose."""
    found = manifests()
    template = found["Deployment"]["spec"]["template"]
    labels = template["metadata"]["labels"]
    [pod] = template["spec"]["containers"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    service = found["Service"]["spec"]
    assert (service["selector"], service["sessionAffinity"]) == (labels, "None")
    assert [each["targetPort"] for each in service["ports"]] == [each["name"] for each in pod["ports"]]
    assert [str(each["containerPort"]) for each in pod["ports"]] == [instruction("EXPOSE")]
    target = found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", found["Deployment"]["metadata"]["name"])
    assert {each["name"] for each in pod["volumeMounts"]} == {each["name"] for each in template["spec"]["volumes"]}


def test_the_pod_is_hardened_and_drains() -> None:
    """It is the user of the image, and has the time that an orderly end takes."""
    spec = manifests()["Deployment"]["spec"]["template"]["spec"]
    [pod] = spec["containers"]
    context = spec["securityContext"]
    assert pod["securityContext"] == HARDENED
    assert context["runAsNonRoot"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == instruction("USER")
    before = int(pod["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert spec["terminationGracePeriodSeconds"] >= before + 30


async def begun(http: aiohttp.ClientSession, url: str, ended: asyncio.Task[int]) -> None:
    """Ask as the startup probe does: again and again, under an address that nobody has allowed."""
    while True:
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with http.get(url) as got:
                assert got.status == 200
                return
        await asyncio.wait([ended], timeout=0.05)
        assert not ended.done()


@pytest.mark.parametrize("orchestrator", ["compose", "kubernetes"])
async def test_what_the_files_start_answers_probes_and_clients(orchestrator: str, tmp_path: Path) -> None:
    """The command line of the image, with the arguments, probes and secrets of those who run it."""
    deployed = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    arguments = compose()["services"]["shop"]["command"] if orchestrator == "compose" else deployed["args"]
    name = arguments[arguments.index("--allow-host") + 1]
    (tmp_path / "keys").write_text("k" * 32 + "\n", encoding="utf-8")
    port = free_port()
    program, *rest = [word.replace(":8000", f":{port}") for word in json.loads(instruction("ENTRYPOINT"))]
    assert program == "antiphon"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "antiphon",
        *rest,
        *arguments,
        cwd=DEPLOY,
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        env={**os.environ, "SHOP_KEYS_FILE": str(tmp_path / "keys"), "PYTHONDONTWRITEBYTECODE": "1"},
        start_new_session=True,
    )
    ended = asyncio.create_task(process.wait())
    try:
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as http:
            await begun(http, f"http://127.0.0.1:{port}{deployed['startupProbe']['httpGet']['path']}", ended)
            for probe in ("livenessProbe", "readinessProbe"):
                async with http.get(
                    f"http://127.0.0.1:{port}{deployed[probe]['httpGet']['path']}", headers={"Host": "10.1.2.3"}
                ) as got:
                    assert (got.status, await got.read()) == (200, b"")
            headers, url = {"Host": name}, f"http://127.0.0.1:{port}/mcp"
            async with Client(url, headers=headers, revision="2025-11-25") as client:
                assert (await client.call_tool("price", {"product": "hat"})).text == "hat: 12.00"
            async with Client(url, headers=headers, revision="2026-07-28", sampling=sampler) as client:
                assert (await client.call_tool("describe", {"product": "hat"})).text == "Warm."
            process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            await process.communicate()
            await ended


@contextlib.asynccontextmanager
async def redis(folder: Path) -> AsyncIterator[int]:
    """Run the command that compose has for it, with other places and a port of its own; yields the port."""
    shell, option, script = compose()["services"]["redis"]["command"]
    port = free_port()
    (folder / "redis-password").write_text("secret", encoding="utf-8")
    script = script.replace("$$", "$").replace("/run/redis", str(folder)).replace("/run/secrets", str(folder))
    command = [shell, option, f"{script} --port {port} --bind 127.0.0.1 --dir {folder}"]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    )
    try:
        await until(lambda: listens(f"127.0.0.1:{port}"), PATIENCE)
        yield port
    finally:
        await killed(process)


async def killed(process: asyncio.subprocess.Process) -> None:
    """Kill what was started, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        await process.wait()


@pytest.mark.redis
async def test_the_replicas_of_compose_share_their_sessions(tmp_path: Path) -> None:
    """One opens a session, the other serves it, over a Redis with a password that is started as there."""
    (tmp_path / "keys").write_text("k" * 32 + "\n", encoding="utf-8")
    async with contextlib.AsyncExitStack() as ending, asyncio.timeout(PATIENCE):
        port = await ending.enter_async_context(redis(tmp_path))
        (tmp_path / "cluster").write_text(f"redis://:secret@127.0.0.1:{port}/0", encoding="utf-8")
        files = {"SHOP_KEYS_FILE": str(tmp_path / "keys"), "SHOP_CLUSTER_FILE": str(tmp_path / "cluster")}
        environment = {**os.environ, **files, "PYTHONDONTWRITEBYTECODE": "1"}
        places = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        for place in places:
            command = [sys.executable, "-m", "antiphon", "serve", "shop.py", "--http", place]
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=DEPLOY,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                env=environment,
                start_new_session=True,
            )
            ending.push_async_callback(killed, process)
        http = await ending.enter_async_context(aiohttp.ClientSession())
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        headers = {"Accept": "application/json, text/event-stream"}

        async def post(at: int, message: dict[str, Any]) -> aiohttp.ClientResponse:
            await until(lambda: listens(places[at]), PATIENCE)
            async with http.post(
                f"http://{places[at]}/mcp", json={"jsonrpc": "2.0", **message}, headers=headers
            ) as got:
                await got.read()
                return got

        opened = await post(0, {"id": 0, "method": "initialize", "params": client})
        headers["Mcp-Session-Id"] = opened.headers["Mcp-Session-Id"]
        call = {"name": "price", "arguments": {"product": "hat"}}
        assert (await post(1, {"method": "notifications/initialized"})).status == 202
        served = await post(1, {"id": 1, "method": "tools/call", "params": call})
        assert "hat: 12.00" in await served.text()


def lay_out(places: dict[str, str]) -> dict[str, str]:
    """Make the folders of a service, with one server to stand behind the gateway."""
    config = Path(places["XDG_CONFIG_HOME"]) / "antiphon"
    for folder in (config, Path(places["HOME"])):
        folder.mkdir(parents=True)
    entry = {"command": sys.executable, "args": [str(DEPLOY / "shop.py")]}
    (config / "servers.json").write_text(json.dumps({"mcpServers": {"shop": entry}}), encoding="utf-8")
    return places


@pytest.mark.parametrize(("unit", "said"), [("gateway", "Serving shop over http"), ("review", "Review page: http")])
async def test_what_the_unit_of_systemd_starts_serves(unit: str, said: str, tmp_path: Path) -> None:
    """With the arguments, folders and variables that it names, below another folder and at free ports."""
    text = (DEPLOY / "antiphon@.service").read_text(encoding="utf-8")
    [arguments] = re.findall(rf"^# +{unit}\.env +ARGS=(.+)$", text, re.MULTILINE)
    [variables] = re.findall(r"^Environment=(.+)$", text, re.MULTILINE)
    [program] = re.findall(r"^ExecStart=/opt/antiphon/bin/antiphon \$(\w+)$", text, re.MULTILINE)
    assert program == "ARGS"
    places = lay_out(
        {name: f"{tmp_path}{path}" for name, _, path in (each.partition("=") for each in variables.split())}
    )
    words = re.sub(r"8[07]00", lambda _: str(free_port()), arguments).split()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "antiphon", *words),
        cwd=places["HOME"],
        env={"PATH": os.environ["PATH"], "ANTIPHON_TOKEN": "t" * 32, **places},
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while said not in (line := (await process.stderr.readline()).decode()):
                assert line, "it has ended"
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            rest = await process.stderr.read()
            assert await process.wait() in (0, -signal.SIGTERM, 128 + signal.SIGTERM), rest
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert (Path(places["XDG_STATE_HOME"]) / "antiphon").is_dir()
