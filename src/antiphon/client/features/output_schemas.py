"""Structured content checked against the output schema of its tool (2025-11-25 server/tools, Output Schema).

Owns what this client knows of the server's output schemas. A schema that cannot be used checks nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from antiphon.errors import ConfigError, ResultInvalid, TooCostly
from antiphon.json_schema.mismatch import MismatchError
from antiphon.json_schema.validator import SchemaValidator
from antiphon.wire.tools import Tool

__all__ = ["Outputs"]

log = logging.getLogger("antiphon.client")

MAX_TOOLS = 10_000
"""Most tools whose schemas are remembered."""


class Outputs:
    """The output schemas of one server's tools."""

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any] | None] = {}
        self._validators: dict[str, SchemaValidator | None] = {}
        self._complete = False

    def learn(self, tools: Sequence[Tool]) -> None:
        """Remember the schemas of some tools."""
        for tool in tools:
            if len(self._schemas) < MAX_TOOLS:
                if self._schemas.get(tool.name) != tool.output_schema:
                    self._validators.pop(tool.name, None)
                self._schemas[tool.name] = tool.output_schema

    def forget(self) -> None:
        """Forget everything: the server's tools have changed."""
        self._schemas.clear()
        self._validators.clear()
        self._complete = False

    async def check(self, name: str, content: Any, tools: Callable[[], AsyncIterator[Tool]]) -> None:
        """Check what a tool returned; the tools are listed once if this one is not known yet.

        Raises:
            ResultInvalid: it does not fit; names the place.
            TooCostly: to find out takes more time or memory than it may.
        """
        if name not in self._schemas and not self._complete:
            async for _ in tools():
                pass
            self._complete = True
        try:
            validator = self._validator(name)
            if validator is not None:
                await validator.check(content)
        except ConfigError as error:
            log.warning("%s; its results are not checked", error)
            self._validators[name] = None
        except MismatchError as error:
            raise ResultInvalid(f"The structured content of {name!r} does not fit its output schema: {error}") from None
        except TooCostly as error:
            raise TooCostly(
                f"The structured content of {name!r} cannot be checked by its output schema: {error}"
            ) from None

    def _validator(self, name: str) -> SchemaValidator | None:
        if name not in self._validators:
            schema = self._schemas.get(name)
            place = f"output schema of {name!r}"
            self._validators[name] = SchemaValidator(schema, place=place, lazy=True) if schema else None
        return self._validators[name]
