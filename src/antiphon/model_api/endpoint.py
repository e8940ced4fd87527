"""The endpoint of the model API: it begins to listen when the first process is equipped, and closes with its host."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import msgspec

from antiphon.host.host import Host
from antiphon.model_api.model_app import CROWDED, TRACED, App
from antiphon.model_api.model_calls import Tokens, protect_memory
from antiphon.transports.http.server.connections import BoundedConnection, ConnectionLimits
from antiphon.transports.http.server.shutdown import serve_embedded
from antiphon.wire.origin import Equipment, Origin

GIVEN: Mapping[str, str] = {
    "OPENAI_BASE_URL": "{address}/v1",
    "OPENAI_API_BASE": "{address}/v1",  # LangChain, LiteLLM and the SDK before 1.0
    "OPENAI_API_KEY": "{token}",
    "ANTHROPIC_BASE_URL": "{address}",
    "ANTHROPIC_API_URL": "{address}",  # LangChain
    "ANTHROPIC_API_BASE": "{address}",  # LiteLLM
    "ANTHROPIC_API_KEY": "{token}",
}
"""The variables that a process gets: all by which vendors' clients and wrappers of them find address and key."""

TAKEN = (
    # It would be sent beside our token, and Anthropic's client complains.
    *("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_PROFILE", "CLAUDE_API_KEY"),
    *("OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_ORGANIZATION", "OPENAI_PROJECT_ID", "OPENAI_WEBHOOK_SECRET"),
    *("OPENAI_CUSTOM_HEADERS", "OPENAI_KEY", "OPENAI_API_TYPE", "OPENAI_API_VERSION"),
    *("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT"),
)
"""Further variables that are removed: keys of the same vendors, and settings that would change where calls go."""

_LOCAL = ("127.0.0.1", "localhost")
_NO_PROXY = ("NO_PROXY", "no_proxy")


def equip_environment(env: Mapping[str, str], *, address: str, token: str) -> dict[str, str]:
    """Return the environment of a process that would have ``env``, so that it calls ``address`` with ``token``."""
    # Some programs read a name in lower case, too.
    kept = {name: value for name, value in env.items() if name.upper() not in (*TAKEN, *GIVEN)}
    given = {name: value.format(address=address, token=token) for name, value in GIVEN.items()}
    # Calls to this machine must not go through a proxy. Programs read either of the two spellings.
    excepted = [each for name in _NO_PROXY for each in kept.get(name, "").split(",") if each.strip()]
    around = ",".join(dict.fromkeys([*(each.strip() for each in excepted), *_LOCAL]))
    return {**kept, **given, **dict.fromkeys(_NO_PROXY, around)}


LIMITS = ConnectionLimits(max_connections=2_048)
"""Most connections of all processes together; further ones are closed at once. Also at most half of the files that this
process may open, since the host needs the rest."""
SERVED = 512
"""Most connections of all processes whose requests are served, far more than can have open requests."""
_ADDRESS = "127.0.0.1"


class ModelEndpoint:
    """The model API of one host. See ``host.host.ModelApi``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._tokens = Tokens()
        self._serving: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._port: asyncio.Future[int] | None = None

    async def equip(self, origin: Callable[[], Origin]) -> Equipment:
        """Make the equipment of one server, and listen if the endpoint does not do so yet."""
        return _Equipment(self._tokens, origin, await self._listening())

    async def aclose(self) -> None:
        """Revoke all tokens, and stop listening."""
        serving, self._serving, self._port = self._serving, None, None
        if serving is not None and serving.get_loop() is asyncio.get_running_loop():
            self._tokens.close()
            self._closed.set()
            await serving

    async def _listening(self) -> str:
        loop = asyncio.get_running_loop()
        # A program may run several event loops in turn: the endpoint ended with the loop it was opened in.
        if self._port is None or self._port.get_loop() is not loop or (self._serving and self._serving.done()):
            self._port, self._closed = loop.create_future(), asyncio.Event()
            self._serving = loop.create_task(self._serve(self._port, self._closed), name="antiphon-model-api")
        return f"http://{_ADDRESS}:{await asyncio.shield(self._port)}"

    async def _serve(self, port: asyncio.Future[int], closed: asyncio.Event) -> None:
        try:
            async with open_endpoint(self._host, self._tokens) as number:
                port.set_result(number)
                await closed.wait()
        except OSError as error:
            if port.done():
                raise
            port.set_exception(error)


@contextlib.asynccontextmanager
async def open_endpoint(host: Host, tokens: Tokens) -> AsyncGenerator[int]:
    """Listen within a block; yields the port."""
    # Named as TCP, so that asyncio sends small data at once.
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as opened:
        protect_memory()
        opened.bind((_ADDRESS, 0))
        opened.listen(128)
        port: int = opened.getsockname()[1]
        app = App(host, tokens, [f"{_ADDRESS}:{port}", f"localhost:{port}"])
        limited = msgspec.structs.replace(LIMITS, max_connections=min(LIMITS.max_connections, _count_file_limit() // 2))

        class Connection(_ModelConnection):
            limits = limited

        async with serve_embedded(app, [opened], Connection, close=app.wait_reported, grace=1):
            yield port


def _count_file_limit() -> int:
    """Return how many files this process may have open."""
    if sys.platform == "win32":
        return 2 * LIMITS.max_connections
    # A module that Windows does not have.
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2 * LIMITS.max_connections if soft == resource.RLIM_INFINITY else soft


class _ModelConnection(BoundedConnection):
    """A connection that remembers which process it comes from, and whether too many were open when it came."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Each request gets a copy of the state, which has the same set.
        self.app_state: dict[str, Any] = {**self.app_state, TRACED: set[bytes]()}

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.app_state[CROWDED] = len(self.connections) > SERVED


class _Equipment:
    """The equipment of one process. See ``wire.origin.Equipment``."""

    def __init__(self, tokens: Tokens, origin: Callable[[], Origin], address: str) -> None:
        self._tokens = tokens
        self._address = address
        self._text, self._token = tokens.issue(origin)

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment of the process."""
        text, self._text = self._text, ""
        return equip_environment(env, address=self._address, token=text)

    def started(self, pid: int) -> None:
        """Bind the token to the process."""
        self._token.pid = pid

    def ended(self) -> None:
        """Revoke the token."""
        self._tokens.revoke(self._token)
