"""``antiphon.types``: what travels, under one roof for users."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from msgspec import Struct

import antiphon.wire
from antiphon import types
from antiphon.wire.common import NotificationParams, PaginatedParams, PaginatedResult, RequestParams, Result, Wire
from antiphon.wire.content import ResourceDescription

BASES = {Wire, RequestParams, NotificationParams, PaginatedParams, PaginatedResult, Result, ResourceDescription}
PLUMBING = {"Launch", "ChangedCall"}
"""Of which identities are computed, and with which a person decides: neither stands in a message or an origin."""


def test_every_type_of_a_message_is_there() -> None:
    """A struct that a file of a feature in ``wire`` defines can be named by users."""
    features = {"completion", "content", "elicitation", "lifecycle", "logging", "prompts", "resources", "roots"}
    features |= {"sampling", "subscriptions", "tools", "rounds", "origin"}
    assert features <= {each.name for each in pkgutil.iter_modules(antiphon.wire.__path__)}
    exported = {
        name
        for feature in features
        for module in [import_module(f"antiphon.wire.{feature}")]
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == module.__name__
        if not name.startswith("_")
    }
    assert exported - set(types.__all__) - {base.__name__ for base in BASES} == PLUMBING


def test_they_are_the_very_types_of_the_wire() -> None:
    """One set of types for one message."""
    assert all(
        getattr(types, name).__module__.startswith("antiphon.wire") for name in ("Tool", "CallToolResult", "Origin")
    )
