"""Those who complete: a person, a script, an echo. Every model vendor joins through one more file of this folder.

Owns the names under which a host finds them.
"""

from __future__ import annotations

from antiphon.errors import ConfigError
from antiphon.host.providers.base import Provider
from antiphon.host.providers.echo import Echo
from antiphon.host.providers.manual import Manual
from antiphon.host.providers.scripted import Scripted

__all__ = ["Echo", "Manual", "Provider", "Scripted", "named"]


def named(name: str) -> Provider:
    """Make the provider of this name: ``"echo"`` or ``"manual"``.

    Raises:
        ConfigError: there is none; the message lists the names.
    """
    if name == "echo":
        return Echo()
    if name == "manual":
        return Manual()
    raise ConfigError(f'There is no provider "{name}". Use "echo", "manual" or a Provider of your own.')
