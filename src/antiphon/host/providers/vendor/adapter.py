"""``Vendor``: one configured model of one vendor.

Owns the client, and its errors as failures in our own words. Vendors put requests, addresses and sometimes a key into
the text of an error. None of this is passed on: only the kind, the HTTP status, and the code if that is a plain word.
``host.models`` retries, and tries fallbacks. A client gets the one key that is meant for it, never
another one from the environment; nothing here writes or shows a key.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx2
from pydantic_ai import exceptions as theirs
from pydantic_ai import messages as vendor
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import get_user_agent, infer_model
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import infer_provider_class

from antiphon.errors import ConfigError
from antiphon.host.model_catalogue import Model
from antiphon.host.providers.base import Completion, FailureKind, Growth, ProviderFailure, key_variables
from antiphon.host.providers.vendor.translation import VendorRequest, convert_completion, convert_request
from antiphon.machine.web_requests import describe_cause, list_causes
from antiphon.wire.sampling import CreateMessageRequestParams

MAX_RESPONSE = 64 * 1024 * 1024
"""Most bytes of one answer: three times the media that one request may contain."""
_CONNECT_TIMEOUT = 10.0
_READ_TIMEOUT = 600.0
"""Seconds without receiving a byte; the caller has a deadline for the whole."""
_OPENAI = "https://api.openai.com/v1"
_ANTHROPIC = "https://api.anthropic.com"
_GOOGLE = "https://generativelanguage.googleapis.com"


class Connected(NamedTuple):
    """A model and its client, which must be closed."""

    model: TheirModel
    client: httpx2.AsyncClient

    async def aclose(self) -> None:
        """Close the connections, and leave nothing that is closed by garbage collection."""
        await self.client.aclose()
        theirs: Any = getattr(self.model, "client", None)
        if hasattr(theirs, "aio"):
            # Google's client has a part for blocking calls, and all its parts would close themselves again when garbage
            # collected, each in a task on whatever loop runs then.
            theirs.close()
            part: Any
            for part in (theirs.aio, getattr(theirs, "_api_client", None)):
                if part is not None:
                    part.aclose = _is_closed


def connect_model(model: Model, key: str | None) -> Connected:
    """Make a client for a model, sending nothing; raise ``ConfigError`` if its key or a package is missing."""
    if key is None and (variables := key_variables(model)):
        # Without a key, the vendor's library would take any key from the environment.
        raise ConfigError(f"{model.name}: the environment has no {' or '.join(variables)}")
    try:
        client = httpx2.AsyncClient(
            # Identity: the limit then applies to the bytes received, and a small answer cannot unpack to a huge one.
            headers={"User-Agent": get_user_agent(), "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(_READ_TIMEOUT, connect=_CONNECT_TIMEOUT),
            follow_redirects=False,
            event_hooks={"response": [_limit_response]},
        )
        return Connected(_MAKERS.get(model.provider, _make_other)(model, key, client), client)
    except ImportError as error:
        # This message only names the package and how to install it.
        raise ConfigError(f"{model.name}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{model.name}: SSL_CERT_FILE or SSL_CERT_DIR: {describe_cause(error)}") from None
    except (UserError, ValueError, TypeError):
        raise ConfigError(
            f"{model.name}: cannot reach models of {model.provider!r} with a key, an address and a model alone; "
            'use "openai", "anthropic", "google" or "openai-compatible" with a base_url'
        ) from None


def _make_openai(model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    host = urlsplit(model.base_url or "").hostname or ""
    if model.base_url is not None and host != "openai.com" and not host.endswith(".openai.com"):
        return _make_compatible(model, key, client)
    provider = OpenAIProvider(base_url=model.base_url or _OPENAI, api_key=key, http_client=client)
    return OpenAIChatModel(model.model, provider=provider)


def _make_compatible(model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if model.base_url is None:
        raise ConfigError(f"{model.name}: {model.provider!r} needs a base_url")
    client.event_hooks = {**client.event_hooks, "request": [_without_account]}
    provider = OpenAICompatibleProvider("openai-compatible", base_url=model.base_url, api_key=key, http_client=client)
    # All such services know "max_tokens"; some ignore the newer name, and so would ignore the limit.
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    return OpenAIChatModel(model.model, provider=provider, profile=profile)


async def _without_account(request: httpx2.Request) -> None:
    """Remove what OpenAI's library adds from the environment, which is meant for OpenAI alone."""
    for name in ("OpenAI-Organization", "OpenAI-Project"):
        request.headers.pop(name, None)


def _make_anthropic(model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirModel:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    made = AsyncAnthropic(api_key=key, base_url=model.base_url or _ANTHROPIC, http_client=client)
    return AnthropicModel(model.model, provider=AnthropicProvider(anthropic_client=made))


def _make_google(model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirModel:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(api_key=key, base_url=model.base_url or _GOOGLE, http_client=client)
    return GoogleModel(model.model, provider=provider)


def _make_other(model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirModel:
    """Make a model of a vendor that pydantic-ai knows and that needs only a key."""
    address = {"base_url": model.base_url} if model.base_url is not None else {}
    # The arguments of providers differ; one that takes neither key nor client raises ``TypeError``, which is reported.
    return infer_model(
        f"{model.provider}:{model.model}",
        lambda name: cast("Any", infer_provider_class(name))(api_key=key, http_client=client, **address),
    )


def _is_closed() -> None:
    # Raised during garbage collection, where it is ignored, so that no task is made.
    raise RuntimeError("this client is closed")


_Maker = Callable[[Model, str | None, httpx2.AsyncClient], TheirModel]
_MAKERS: dict[str, _Maker] = {
    "openai": _make_openai,
    "openai-compatible": _make_compatible,
    "anthropic": _make_anthropic,
    "google": _make_google,
    "gemini": _make_google,
}


class _TooLarge(httpx2.TransportError):
    """An answer is larger than allowed, or compressed so that its size cannot be known."""


class _Bounded(httpx2.AsyncByteStream):
    """A stream that raises an error when too much is read from it."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_RESPONSE
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise _TooLarge("the answer is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _limit_response(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise _TooLarge("the answer is packed")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


_Kinds = type[BaseException] | tuple[type[BaseException], ...]
# The first match counts; each entry is more specific than those below it.
_KINDS: tuple[tuple[_Kinds, FailureKind, str], ...] = (
    (theirs.ModelRateLimitError, "rate-limit", "too many requests"),
    (theirs.ModelQuotaExceededError, "quota", "the account has no quota or credit left"),
    (theirs.ModelUnavailableError, "unavailable", "the service is not available"),
    (theirs.ModelServerError, "unavailable", "the service failed"),
    ((theirs.ModelTimeoutError, theirs.ModelRequestTimeout, TimeoutError), "timeout", "no answer in time"),
    ((theirs.ModelConnectionError, OSError), "connection", "the connection failed"),
    (theirs.ModelAuthenticationError, "auth", "the key was not accepted"),
    (theirs.ModelNotFoundError, "not-found", "there is no such model, or the address is wrong"),
    (theirs.ModelContextWindowExceededError, "context", "the request is too large for the model"),
    (theirs.ModelRequestRejectedError, "rejected", "the service did not take the request"),
    (theirs.ContentFilterError, "refused", "the model, or a filter around it, refused"),
    (theirs.UnexpectedModelBehavior, "invalid", "the answer cannot be used"),
    ((theirs.UserError, NotImplementedError), "unsupported", "the model cannot be asked this"),
)
_STATUS: dict[int, FailureKind] = {408: "timeout", 429: "rate-limit", 401: "auth", 403: "auth", 404: "not-found"}
_UNREACHED = (httpx2.ConnectError, httpx2.ConnectTimeout, ConnectionRefusedError)
_PLAIN_WORD = re.compile(r"[a-z]+(?:_[a-z]+){0,4}")
"""Matches ``insufficient_quota``, but nothing with the digits, capitals or hyphens of a key."""
_LONGEST_WORD = 48


class Vendor:
    """A model of a vendor."""

    def __init__(self, model: Model, key: str | None, *, ready: TheirModel | None = None) -> None:
        """Make the client as ``connect_model`` does; send nothing. ``ready`` is asked instead, and stays open."""
        self._model = model
        self._connected: Connected | None = None
        if ready is None:
            self._connected = connect_model(model, key)
            ready = self._connected.model
        self._asked = ready

    async def generate(self, params: CreateMessageRequestParams, growth: Growth | None = None) -> Completion:
        """Ask once; ``growth`` is told of the text while it comes. Cancelling closes the connection.

        Every error is a ``ProviderFailure`` whose text contains nothing that was received.
        """
        # Converted outside of the ``try`` below, so that a mistake of ours is not taken for one of the
        # vendor's.
        sent = convert_request(params, self._model)
        coming = None if growth is None else _Coming(growth)
        try:
            if coming is None:
                response = await model_request(
                    self._asked,
                    sent.messages,
                    model_settings=sent.settings,
                    model_request_parameters=sent.parameters,
                    instrument=False,
                )
            else:
                response = await self._stream_answer(sent, coming)
            self._check_ended(response, streamed=coming is not None)
            return convert_completion(response, params, self._model, sent.names)
        except ProviderFailure:
            raise
        except Exception as error:
            # A boundary to code of others, whose errors quote what came over the wire: the cause is cut off.
            failed = convert_failure(error, self._model)
            # The model has worked on an answer whose stream broke off, so the vendor may charge for it.
            failed.charged = failed.charged or (coming is not None and coming.begun)
            raise failed from None

    async def _stream_answer(self, sent: VendorRequest, coming: _Coming) -> vendor.ModelResponse:
        messages, settings, parameters, _ = sent
        streaming = model_request_stream(
            self._asked, messages, model_settings=settings, model_request_parameters=parameters, instrument=False
        )
        async with streaming as stream:
            async for event in stream:
                coming.take(event)
            return stream.get()

    def _check_ended(self, response: vendor.ModelResponse, *, streamed: bool) -> None:
        """Raise ``ProviderFailure`` if an answer does not say why it ends: a stream, or one that has no content."""
        said = (response.provider_details or {}).get("finish_reason")
        if said is None and response.finish_reason in (None, "stop") and (streamed or not response.parts):
            # A complete answer says why it ends. A stream without that broke off, and must not pass for a complete one.
            what = "the stream ended before the answer did" if streamed else "the answer is empty"
            raise ProviderFailure("invalid", f"{self._model.provider}: {what}")

    async def aclose(self) -> None:
        """Close the connections."""
        if self._connected is not None:
            await self._connected.aclose()


class _Coming:
    """The text of a stream, passed on to people who watch it."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self.begun = False
        """Whether anything of an answer has come."""

    def take(self, event: vendor.ModelResponseStreamEvent) -> None:
        """Pass on the text of an event; hidden reasoning and uses of tools are left out."""
        self.begun = True
        text = ""
        if isinstance(event, vendor.PartStartEvent) and isinstance(event.part, vendor.TextPart):
            text = event.part.content
        elif isinstance(event, vendor.PartDeltaEvent) and isinstance(event.delta, vendor.TextPartDelta):
            text = event.delta.content_delta
        if text:
            self._growth.add(text)


def convert_failure(error: BaseException, model: Model) -> ProviderFailure:
    """Convert an exception of a vendor's library to our failure."""
    for kind, name, meaning in _KINDS:
        if isinstance(error, kind):
            return _make_failure(name, meaning, error, model)
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        kind = _STATUS.get(status, "unavailable" if status >= 500 else "rejected")
        return _make_failure(kind, "the service answered with an error", error, model)
    return _make_failure("invalid", "the answer cannot be used", error, model)


def _make_failure(kind: FailureKind, meaning: str, error: BaseException, model: Model) -> ProviderFailure:
    after: object = getattr(error, "retry_after", None)
    status: object = getattr(error, "status_code", None)
    # A vendor that answered with an error, or was never reached, has not let a model work.
    unworked = isinstance(status, int) or any(isinstance(one, _UNREACHED) for one in list_causes(error))
    details = [f"HTTP {status}"] if isinstance(status, int) else []
    for name in ("provider_error_type", "provider_error_code"):
        word: object = getattr(error, name, None)
        if isinstance(word, str) and len(word) <= _LONGEST_WORD and _PLAIN_WORD.fullmatch(word):
            details.append(word)
    if kind == "connection" and (words := describe_cause(error)):
        details.append(words)
    told = f" ({', '.join(dict.fromkeys(details))})" if details else ""
    return ProviderFailure(
        kind,
        f"{model.name} at {model.provider}: {meaning}{told}",
        retry_after=float(after) if isinstance(after, int | float) else None,
        charged=False if unworked else None,
    )
