"""A configured model as a pydantic-ai model with an HTTP client of its own: address, key and limits.

Keys are held here only while a client is made from them; nothing here writes or shows one. A client gets the one key
that is meant for it, never another one from the environment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import httpx2
from pydantic_ai.embeddings import EmbeddingModel
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import get_user_agent, infer_model
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider as TheirProvider
from pydantic_ai.providers import infer_provider_class

from antiphon.errors import ConfigError
from antiphon.host.model_catalogue import Model
from antiphon.host.providers.base import key_variables

MAX_RESPONSE = 64 * 1024 * 1024
"""Most bytes of one answer: three times the media that one request may contain."""
_CONNECT_TIMEOUT = 10.0
_READ_TIMEOUT = 600.0
"""Seconds without receiving a byte; the caller has a deadline for the whole."""
_OPENAI = "https://api.openai.com/v1"
_ANTHROPIC = "https://api.anthropic.com"
_GOOGLE = "https://generativelanguage.googleapis.com"


_Made = TypeVar("_Made")


class Connected(NamedTuple, Generic[_Made]):
    """A model, or one for embeddings, and its client, which must be closed."""

    model: _Made
    client: httpx2.AsyncClient

    async def aclose(self) -> None:
        """Close the connections, and leave nothing that is closed by garbage collection."""
        await self.client.aclose()
        theirs: Any = getattr(self.model, "client", None)
        if hasattr(theirs, "aio"):
            _close_google(theirs)


def connect_model(model: Model, key: str | None) -> Connected[TheirModel]:
    """Make a client for a model, sending nothing; raise ``ConfigError`` if its key or a package is missing."""
    return _connect_client(model, key, _MAKERS.get(model.provider, _make_other))


def connect_embedder(model: Model, key: str | None) -> Connected[EmbeddingModel]:
    """Make a client for a model that makes embeddings, as ``connect_model`` does for others."""
    return _connect_client(model, key, _make_embedder)


def _connect_client(
    model: Model, key: str | None, make: Callable[[Model, str | None, httpx2.AsyncClient], _Made]
) -> Connected[_Made]:
    if key is None and (variables := key_variables(model)):
        # Without a key, the vendor's library would take any key from the environment.
        raise ConfigError(f"{model.name}: the environment has no {' or '.join(variables)}")
    client = _make_client()
    try:
        return Connected(make(model, key, client), client)
    except ImportError as error:
        # This message only names the package and how to install it.
        raise ConfigError(f"{model.name}: {error}") from None
    except (UserError, ValueError, TypeError):
        raise ConfigError(
            f"{model.name}: cannot reach models of {model.provider!r} with a key, an address and a model alone; "
            'use "openai", "anthropic", "google" or "openai-compatible" with a base_url'
        ) from None


def _make_client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        # Identity: the limit then applies to the bytes received, and a small answer cannot unpack to a huge
        # one.
        headers={"User-Agent": get_user_agent(), "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(_READ_TIMEOUT, connect=_CONNECT_TIMEOUT),
        follow_redirects=False,
        event_hooks={"response": [_limit_response]},
    )


def _make_openai(model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirModel:
    from pydantic_ai.models.openai import OpenAIChatModel

    if model.base_url is not None and not _is_of(model.base_url, "openai.com"):
        return _make_compatible(model, key, client)
    return OpenAIChatModel(model.model, provider=_openai_itself(model, key, client))


def _openai_itself(model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirProvider[Any]:
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIProvider(base_url=model.base_url or _OPENAI, api_key=key, http_client=client)


def _make_compatible(model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirModel:
    from pydantic_ai.models.openai import OpenAIChatModel

    provider = _compatible_service(model, key, client)
    # All such services know "max_tokens"; some ignore the newer name, and so would ignore the limit.
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    return OpenAIChatModel(model.model, provider=provider, profile=profile)


def _compatible_service(model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirProvider[Any]:
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if model.base_url is None:
        raise ConfigError(f"{model.name}: {model.provider!r} needs a base_url")
    client.event_hooks = {**client.event_hooks, "request": [_without_account]}
    return OpenAICompatibleProvider("openai-compatible", base_url=model.base_url, api_key=key, http_client=client)


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
    return infer_model(f"{model.provider}:{model.model}", lambda name: _other_service(name, model, key, client))


def _other_service(name: str, model: Model, key: str | None, client: httpx2.AsyncClient) -> TheirProvider[Any]:
    # The arguments of providers differ; one that takes neither key nor client raises a ``TypeError``, which is
    # reported.
    made = cast("Callable[..., TheirProvider[Any]]", infer_provider_class(name))
    address = {"base_url": model.base_url} if model.base_url is not None else {}
    return made(api_key=key, http_client=client, **address)


def _make_embedder(model: Model, key: str | None, client: httpx2.AsyncClient) -> EmbeddingModel:
    """Make a model for embeddings of OpenAI, or of a service that speaks as OpenAI does."""
    from openai import AsyncOpenAI
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel

    if model.provider in _OTHERWISE:
        raise ConfigError(
            f"{model.name}: embeddings of {model.provider!r} are not offered; use an address that speaks as OpenAI "
            'does, with "openai-compatible" and a base_url'
        )
    if model.provider == "openai" and (model.base_url is None or _is_of(model.base_url, "openai.com")):
        service = _openai_itself(model, key, client)
    elif model.provider in ("openai", "openai-compatible"):
        service = _compatible_service(model, key, client)
    else:
        service = _other_service(model.provider, model, key, client)
    theirs = service.client
    if not isinstance(theirs, AsyncOpenAI):
        raise TypeError
    # ``persistence`` retries, and knows the deadline and the reservation.
    theirs.max_retries = 0
    return OpenAIEmbeddingModel(model.model, provider=service)


def _close_google(theirs: Any) -> None:
    """Close Google's client completely: its part for blocking calls, and its hook to close itself again.

    Otherwise its parts close themselves when garbage collected, each in a task on whatever loop runs then.
    """
    theirs.close()
    part: Any
    for part in (theirs.aio, getattr(theirs, "_api_client", None)):
        if part is not None:
            part.aclose = _is_closed


def _is_closed() -> None:
    # Raised during garbage collection, where it is ignored, so that no task is made.
    raise RuntimeError("this client is closed")


_OTHERWISE = ("anthropic", "cohere", "gemini", "google")
"""Providers whose own interface is not OpenAI's."""
_Maker = Callable[[Model, str | None, httpx2.AsyncClient], TheirModel]
_MAKERS: dict[str, _Maker] = {
    "openai": _make_openai,
    "openai-compatible": _make_compatible,
    "anthropic": _make_anthropic,
    "google": _make_google,
    "gemini": _make_google,
}


def _is_of(url: str, domain: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == domain or host.endswith(f".{domain}")


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
    """Limit what is read of an answer."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise _TooLarge("the answer is packed")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)
