"""The variables of a process that uses the model API: our address and token, and no key of these vendors."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["GIVEN", "TAKEN", "equipped"]

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


def equipped(env: Mapping[str, str], *, address: str, token: str) -> dict[str, str]:
    """Return the environment of a process.

    Args:
        env: the variables it would have.
        address: ``"http://127.0.0.1:49152"``.
        token: what it calls with.
    """
    # Some programs read a name in lower case, too.
    kept = {name: value for name, value in env.items() if name.upper() not in (*TAKEN, *GIVEN)}
    given = {name: value.format(address=address, token=token) for name, value in GIVEN.items()}
    # Calls to this machine must not go through a proxy. Programs read either of the two spellings.
    excepted = [each for name in _NO_PROXY for each in kept.get(name, "").split(",") if each.strip()]
    around = ",".join(dict.fromkeys([*(each.strip() for each in excepted), *_LOCAL]))
    return {**kept, **given, **dict.fromkeys(_NO_PROXY, around)}
