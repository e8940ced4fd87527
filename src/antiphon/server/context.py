"""What a handler receives: the way back to the client, and the facts of the request it serves.

A ``Context`` belongs to one call and holds nothing of its own; it works in tools, resources, prompts and completers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from antiphon.server.ask import ask
from antiphon.server.call import Call
from antiphon.server.elicitation import Elicited, elicit_form, elicit_visit
from antiphon.server.facts import RequestFacts
from antiphon.server.sampling import DEFAULT_MAX_TOKENS, Messages, Preferences, Sample, sampling_params
from antiphon.wire.common import LoggingLevel, RequestParams
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.sampling import CreateMessageResult, IncludeContext, ToolChoice
from antiphon.wire.tools import Tool

if TYPE_CHECKING:
    from antiphon.server.app import Server
    from antiphon.wire.resources import ReadResourceResult

__all__ = ["Context"]


class Context:
    """The client, as seen from one call. Declare a parameter of this type, and it is passed in."""

    __slots__ = ("_call",)
    __antiphon_context__ = True
    """Marks the parameter that ``signature`` fills in."""

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    def server(self) -> Server:
        """The server this handler belongs to."""
        return self._call.server

    @property
    def request(self) -> RequestFacts:
        """Facts of the request that is live now: revision, client, capabilities, principal, ``_meta``."""
        return RequestFacts(self._call)

    @property
    def state(self) -> Any:
        """What the server's lifespan yielded; ``None`` without one."""
        return self._call.server.state

    @property
    def cancelled(self) -> bool:
        """Whether the client has withdrawn the request. The handler's task is cancelled as well."""
        return self._call.facts.cancelled

    # --- asks ---------------------------------------------------------------------------------------------------

    async def sample(
        self,
        messages: Messages,
        *,
        system_prompt: str | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: Preferences | None = None,
        include_context: IncludeContext | None = None,
        metadata: Mapping[str, Any] | None = None,
        tools: Sequence[Tool] | None = None,
        tool_choice: str | ToolChoice | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Sample:
        """Ask the client's model for a completion, with its user in control.

        ``messages``: a string, a message, or a list of either, the oldest first. ``model_preferences``: a model's
        name, several in order of preference, or full preferences; the client decides. ``tools``: definitions the
        model may use in this one turn; what it wants to use comes back in ``tool_uses``. ``timeout``: seconds; by
        default a person may take their time.

        Source: client/sampling of every revision; deprecated, and fully supported, since 2026-07-28.

        Raises:
            SamplingUnavailable: the client offers no sampling (or not with tools); nothing was sent.
            Rejected: the user, a policy or a limit of the client said no.
            CallTimeout: no answer came within ``timeout``.
        """
        params = sampling_params(
            messages,
            system_prompt=system_prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            stop_sequences=stop_sequences,
            model_preferences=model_preferences,
            include_context=include_context,
            metadata=metadata,
            tools=tools,
            tool_choice=tool_choice,
        )
        result = await ask(self._call, "sampling/createMessage", params, CreateMessageResult, key=key, timeout=timeout)
        return Sample(params.messages, result)

    async def elicit(
        self, message: str, form: type | Mapping[str, Any], *, key: str | None = None, timeout: float | None = None
    ) -> Elicited:
        """Ask the user to fill in a form.

        ``form``: a dataclass, msgspec Struct, TypedDict or pydantic model with flat members (strings, numbers,
        booleans, enums), of which ``Elicited.value`` will be an instance; or a JSON Schema of that kind, for a plain
        ``dict``.

        Raises:
            ElicitationUnavailable: the client offers no forms; nothing was sent.
        """
        return await elicit_form(self._call, message, form, key=key, timeout=timeout)

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, timeout: float | None = None
    ) -> Elicited:
        """Ask the user to visit an address, for what must not pass through the client (from 2025-11-25).

        Raises:
            ElicitationUnavailable: the client does not offer this; nothing was sent.
        """
        return await elicit_visit(self._call, message, url, key=key, timeout=timeout)

    async def list_roots(self, *, key: str | None = None, timeout: float | None = None) -> Sequence[Root]:
        """Ask the client for the folders it lets the server work in.

        Raises:
            MissingCapability: the client has no roots to offer; nothing was sent.
        """
        return (await ask(self._call, "roots/list", RequestParams(), ListRootsResult, key=key, timeout=timeout)).roots

    # --- telling ------------------------------------------------------------------------------------------------

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the work has come, in any unit. Sent if the client asked for it and the value has increased."""
        await self._call.progress(progress, total, message)

    async def log(self, level: LoggingLevel, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants that level. ``data``: a string, or anything JSON can carry."""
        params = LoggingMessageNotificationParams(level=level, data=data, logger=logger or self._call.server.name)
        request = self._call.request
        if request is not None:
            await self._call.send(self._call.connection.session.log(params, request))

    async def debug(self, data: Any) -> None:
        """Log at level ``debug``."""
        await self.log("debug", data)

    async def info(self, data: Any) -> None:
        """Log at level ``info``."""
        await self.log("info", data)

    async def warning(self, data: Any) -> None:
        """Log at level ``warning``."""
        await self.log("warning", data)

    async def error(self, data: Any) -> None:
        """Log at level ``error``."""
        await self.log("error", data)

    def close_stream(self) -> None:
        """Close the HTTP response of the live request; the call goes on, and the client comes back for the rest.

        For long calls of legacy clients that can resume; in all other cases nothing happens. Source: 2025-11-25
        basic/transports, "Sending Messages to the Server".
        """
        self._call.close_stream()

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read one of this server's own resources.

        Raises:
            ResourceNotFound: there is none with this URI.
        """
        return await self._call.server.read_resource(uri, self)
