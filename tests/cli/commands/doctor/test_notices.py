"""Each service is sent a notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli.commands.doctor.command import check_notices
from antiphon.errors import ConfigError
from tests.cli.conftest import Cli
from tests.support.notice_services import notice_services

CONFIG = """
[[notify.targets]]
url = "ntfy://127.0.0.1:{port}/team"

[[notify.targets]]
url = "nothing://${{SECRET}}"
"""


async def test_each_service_is_sent_a_notice(tmp_path: Path):
    """The one that takes it is told from the one that nobody knows, and no address is repeated."""
    async with notice_services(tmp_path) as services:
        file = tmp_path / "antiphon.toml"
        file.write_text(CONFIG.format(port=services.port), encoding="utf-8")
        first, second = await check_notices(file, {"SECRET": "hunter2"})
        assert (await services.taken.get()).text == "This is a test: notices arrive here."
    assert (first.kind, first.subject, first.text) == ("ok", "[[notify.targets]] 1", "took a notice")
    assert (second.kind, second.subject) == ("failed", "[[notify.targets]] 2")
    assert second.text == "Apprise knows no service with such an address"


async def test_without_services_it_says_how_to_name_one(tmp_path: Path):
    """And a variable that is missing is an error."""
    file = tmp_path / "antiphon.toml"
    file.write_text("", encoding="utf-8")
    [finding] = await check_notices(file, {})
    assert (finding.kind, finding.text) == ("note", "no service is configured: write [[notify.targets]]")
    file.write_text(CONFIG.format(port=9), encoding="utf-8")
    with pytest.raises(ConfigError, match="SECRET is not set"):
        await check_notices(file, {})


def test_the_command_sends_only_when_told(cli: Cli, tmp_path: Path):
    """And what fails is a failure."""
    file = tmp_path / "antiphon.toml"
    file.write_text('[[notify.targets]]\nurl = "nothing://x"\n', encoding="utf-8")
    assert "notify.targets" not in cli("doctor", "--config", str(file)).out
    tried = cli("doctor", "--notices", "--config", str(file))
    assert tried.code == 1
    assert "FAIL  [[notify.targets]] 1: Apprise knows no service" in tried.out
    assert cli("doctor", "--notices", "python server.py").code != 0
