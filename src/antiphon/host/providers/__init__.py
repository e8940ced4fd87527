"""Providers: a person, a script, an echo, and the vendors of models.

Owns the names of the built-in ones.
"""

from __future__ import annotations

from antiphon.errors import ConfigError
from antiphon.host.providers.base import Provider
from antiphon.host.providers.offline import Echo, Manual, Scripted

__all__ = ["Echo", "Manual", "Provider", "Scripted", "make_named_provider"]


def make_named_provider(name: str) -> Provider:
    """Make the provider ``"echo"`` or ``"manual"``; for another name raise ``ConfigError``."""
    if name == "echo":
        return Echo()
    if name == "manual":
        return Manual()
    raise ConfigError(
        f'There is no provider "{name}". Use "echo", "manual" or a Provider of your own; open_host() and --model take '
        "the models of vendors."
    )
