"""The model without a configuration: that of the vendor whose key is in the environment.

Owns which variables are read, in which order, and the default model of each vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.model_catalogue import PROVIDERS, Model
from antiphon.host.models.selection import complete_model


class _Usual(NamedTuple):
    """How a vendor is found in the environment."""

    keys: tuple[str, ...]
    base_url: str
    """Name of the variable with another address."""
    chosen: str
    """Name of the variable with another model."""
    model: str
    """A model of the vendor's middle size: good enough to judge by, and costs cents for a first try."""


# The variables of the vendors' own libraries.
USUAL: Mapping[str, _Usual] = {
    "anthropic": _Usual(("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "claude-sonnet-5-5"),
    "openai": _Usual(("OPENAI_API_KEY",), "OPENAI_BASE_URL", "OPENAI_MODEL", "gpt-5-mini"),
    "google": _Usual(
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL", "gemini-3.7-flash"
    ),
}
KEY_NAMES = " or ".join(name for usual in USUAL.values() for name in usual.keys)
"""The variables that may hold a key, for messages."""
_ASSUMED_CONTEXT = 32_768
"""Tokens. A local service says nothing about its model; most that support tools accept at least this many."""


def standard_model(environ: Mapping[str, str]) -> Model:
    """Return the default model: that of a vendor whose key or address is set.

    Without any, it is the first vendor's, and refuses for want of its key: an echo would pass for a real answer.
    """
    for provider, usual in USUAL.items():
        if any(environ.get(name) for name in (*usual.keys, usual.base_url)):
            return model_of(provider, None, environ)
    return model_of(next(iter(USUAL)), None, environ)


def model_of(provider: str, model: str | None, environ: Mapping[str, str]) -> Model:
    """Make a model from the name of a provider and, optionally, of a model, at the address in the environment.

    At an address of the user's own, any model may be served. To be usable without a file, it is assumed to accept tools
    and images, and to cost as much as the vendor's default model. An unknown provider raises ``ConfigError``.
    """
    if provider not in PROVIDERS:
        raise ConfigError(f'There is no provider "{provider}"; there are: {", ".join(("manual", *PROVIDERS))}')
    usual = USUAL.get(provider)
    chosen = model or (usual and (environ.get(usual.chosen) or usual.model)) or provider
    found = fill_in_model(Model(name=chosen, provider=provider, model=chosen), environ)
    if usual is None or found.base_url is None:
        return found
    alike = complete_model(Model(name=chosen, provider=provider, model=usual.model))
    return msgspec.structs.replace(
        found,
        context=found.context or _ASSUMED_CONTEXT,
        inputs=found.inputs or ("text", "image"),
        tools=True if found.tools is None else found.tools,
        price=found.price or alike.price,
    )


def fill_in_model(model: Model, environ: Mapping[str, str]) -> Model:
    """Fill in the address of a model from the environment, and then what is publicly known about the model."""
    usual = USUAL.get(model.provider)
    if usual is None or model.base_url is not None or not environ.get(usual.base_url):
        return complete_model(model)
    is_keyless = model.provider == "openai" and model.key is None and not any(environ.get(name) for name in usual.keys)
    # A local service needs no key; one that does uses the variable of the vendor.
    provider = "openai-compatible" if is_keyless else model.provider
    return complete_model(msgspec.structs.replace(model, base_url=environ[usual.base_url], provider=provider))
