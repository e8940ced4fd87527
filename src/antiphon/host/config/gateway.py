"""The ``[gateway]`` table of ``antiphon.toml``: which servers and tools pass a gateway, and what they are called.

Owns the form of the table; ``antiphon.gateway`` uses it. Servers are named as in the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from antiphon.errors import ConfigError

__all__ = ["QUICK_CANCEL", "GatewaySettings", "Profile", "Served"]

QUICK_CANCEL = 0.5
"""Seconds in which no person has read a form: ``claude -p`` cancels each form after a few milliseconds."""


class Served(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One server behind the gateway."""

    tools: tuple[str, ...] | None = None
    """Globs over its own names of its tools; one that begins with ``!`` denies, and a deny wins."""
    prefix: str | None = None
    """What its tools' names begin with, instead of its name."""
    rename: dict[str, str] = {}
    """New names for single tools, by the server's own names of them."""
    owns: tuple[str, ...] = ()
    """Globs over its URIs and templates of resources that overlap with another server's."""
    start_timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds in which it must start and list what it offers; read when the gateway starts."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A named choice of servers and tools."""

    only: tuple[str, ...] | None = None
    """The servers; all by default."""
    tools: tuple[str, ...] | None = None
    """Globs over the tools of every server, in addition to all others: what one of them denies is denied."""
    servers: dict[str, Served] = {}
    """The same for single servers."""


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ``antiphon gateway`` serves, and how."""

    names: Literal["prefix", "none"] | None = None
    search: bool | None = None
    """Whether clients search among the tools instead of listing them."""
    list_timeout: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds that lists wait for all servers that were never listed, from the start of the gateway."""
    environment: Literal["host", "minimal"] = "host"
    """Which environment servers get: all that the gateway's own host gave to it, or a safe part. Those of a project's
    file get the safe part, unless a person has trusted it with more."""
    model_api: bool = False
    """Whether the servers that it starts get the model API instead of vendors' keys."""
    tools: tuple[str, ...] | None = None
    """Globs over the tools of every server."""
    quick_cancel: Annotated[float, msgspec.Meta(ge=0)] = QUICK_CANCEL
    """Seconds; a client that cancels a form earlier has shown it to nobody. See ``Gateway``."""
    servers: dict[str, Served] = {}
    profiles: dict[str, Profile] = {}

    def profile(self, name: str | None) -> Profile:
        """Return a profile; without a name, one that chooses everything.

        Args:
            name: name of the profile.

        Raises:
            ConfigError: there is no such profile; the message lists the existing ones.
        """
        if name is None:
            return Profile()
        if name not in self.profiles:
            known = ", ".join(self.profiles) or "none"
            raise ConfigError(f"there is no profile {name!r}; there are: {known}. Write [gateway.profiles.{name}]")
        return self.profiles[name]

    def tool_lists(self, profile: Profile) -> list[Mapping[str, tuple[str, ...]]]:
        """Return all lists of globs by server that a tool must pass; ``"*"`` is every server.

        Args:
            profile: the profile in force.
        """
        return [
            {
                **({} if every is None else {"*": every}),
                **{n: s.tools for n, s in servers.items() if s.tools is not None},
            }
            for every, servers in ((self.tools, self.servers), (profile.tools, profile.servers))
        ]

    @property
    def start_timeouts(self) -> dict[str, float]:
        """The seconds in which servers must start, by server, where they are given."""
        return {name: served.start_timeout for name, served in self.servers.items() if served.start_timeout is not None}

    def prefixes(self, profile: Profile) -> dict[str, str]:
        """Return the prefixes by server; a profile's replaces a general one.

        Args:
            profile: the profile in force.
        """
        both = (*self.servers.items(), *profile.servers.items())
        return {name: served.prefix for name, served in both if served.prefix is not None}

    def owned(self, profile: Profile) -> dict[str, tuple[str, ...]]:
        """Return the globs over URIs that a server owns, by server.

        Args:
            profile: the profile in force.
        """
        both = (*self.servers.items(), *profile.servers.items())
        return {name: served.owns for name, served in both if served.owns}

    def renamed(self, profile: Profile) -> dict[str, dict[str, str]]:
        """Return the names given by hand, by server and its own names; a profile's replace general ones.

        Args:
            profile: the profile in force.
        """
        names: dict[str, dict[str, str]] = {}
        for name, served in (*self.servers.items(), *profile.servers.items()):
            names[name] = {**names.get(name, {}), **served.rename}
        return names
