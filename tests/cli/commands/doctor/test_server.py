from __future__ import annotations

from antiphon.cli.commands.doctor.command import DoctorFinding, examine_server
from antiphon.cli.options import Reach
from tests.cli.program import SERVERS, SHOP


async def findings(target: str, **options: str) -> dict[str, DoctorFinding]:
    """Examine a server; return what is found by its subject."""
    found: list[DoctorFinding] = []
    await examine_server(target, Reach(**options), found.append)
    return {finding.subject: finding for finding in found}


async def test_a_good_server_has_nothing_odd():
    """It says what it is, what it offers, and how fast it answers."""
    found = await findings(SHOP)
    assert {finding.kind for finding in found.values()} == {"ok"}
    assert found["server"].text == "The shop 1.2"
    assert found["revision"].text == "2026-07-28 (modern)"
    assert "prompts" in found["offers"].text
    assert found["resources"].text == "2, and 1 templates"
    assert found["round trip"].text.endswith("ms (median of 5)")


async def test_an_older_revision_is_named():
    """With its era."""
    found = await findings(SHOP, revision="2025-03-26")
    assert found["revision"].text == "2025-03-26 (legacy: with a handshake)"


async def test_noise_among_the_messages_is_odd():
    """A banner on standard output is."""
    assert (await findings(str(SERVERS / "noisy.py")))["stdout"].kind == "odd"
