"""A plugin of pytest: ``pytest --check-server server.py`` adds a test that checks a server as ``antiphon check`` does.

pytest loads it by its entry point in every run, so it imports the check only when a server is to be checked.
"""

from __future__ import annotations

import asyncio
from typing import cast

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("antiphon")
    about = "start an MCP server (a file, a command, a URL) and check it as antiphon check does, in a test of its own"
    group.addoption("--check-server", action="append", default=[], metavar="TARGET", help=about)
    group.addoption("--check-call", action="append", default=[], metavar="NAME[={...}]", help="a tool to be called")


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each server."""
    make = ServerCheck.from_parent  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    items.extend(make(session, name=target) for target in cast("list[str]", config.getoption("--check-server")))


class ServerCheck(pytest.Item):
    """The check of one server, named as given: it fails if the server breaks a MUST, or cannot be checked."""

    def runtest(self) -> None:
        """Check the server; a report without errors goes to what the test prints."""
        from antiphon.check.check_report import format_report
        from antiphon.check.checkup import check_server
        from antiphon.errors import ConfigError

        try:
            calls = cast("list[str]", self.config.getoption("--check-call"))
            report = asyncio.run(check_server(self.name, calls=calls, network=True))
        except ConfigError as error:
            pytest.fail(str(error), pytrace=False)
        text = "\n".join(line for line, _ in format_report(report))
        if report.problem or report.errors:
            pytest.fail(text, pytrace=False)
        self.add_report_section("call", "antiphon check", text)

    def reportinfo(self) -> tuple[str, None, str]:
        """Say what failed, in the words of a report."""
        return "antiphon", None, f"antiphon check {self.name}"
