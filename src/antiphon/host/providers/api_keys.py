"""Where the API key of a model is found: always in the environment, never in a file.

Owns the names of the variables. A key is only passed on to the client that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.host.model_catalogue import Model

KEYLESS = frozenset({"echo", "openai-compatible"})
"""Providers that need no key unless a variable is configured."""
_USUAL = {"google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}


def key_variables(model: Model) -> tuple[str, ...]:
    """Return the environment variables that may hold the key of a model; the first one that is set counts."""
    if model.key is not None:
        return (model.key,)
    if model.provider in KEYLESS:
        return ()
    return _USUAL.get(model.provider, (f"{model.provider.upper().replace('-', '_')}_API_KEY",))


def find_key(model: Model, environ: Mapping[str, str]) -> str | None:
    """Return the key of a model, or ``None`` if there is none."""
    return next((value for name in key_variables(model) if (value := environ.get(name))), None)


def missing_key(model: Model, environ: Mapping[str, str]) -> str | None:
    """Return a message for people if a model lacks its key; ``None`` if it has one, or needs none."""
    variables = key_variables(model)
    if not variables or find_key(model, environ):
        return None
    return f"the environment has no {' or '.join(variables)}"
