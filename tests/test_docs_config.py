"""docs/how-to/configure.md has every key there is, with its default; what pages show of antiphon.toml can be read."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from antiphon.host.checks.labels import LabelRule
from antiphon.host.checks.policy_rules import Policy, Rule
from antiphon.host.checks.result_rules import ResultRule
from antiphon.host.config.settings import (
    STANDARD,
    AccessTokens,
    Caps,
    NoticeTarget,
    Notify,
    Reviewing,
    ServerBudget,
    ServerEntry,
    SignIn,
)
from antiphon.host.config.toml_files import DefaultsTable, parse_document
from antiphon.host.host import GENERATE_TIMEOUT, REVIEW_TIMEOUT
from antiphon.host.model_catalogue import Model, PriceStep
from antiphon.host.models.models import RetryPatience
from tests.test_docs import PAGES, blocks, title

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "configure.md"
SECTIONS = {
    heading.strip("`"): body
    for heading, body in re.findall(
        r"^##+ (`\[.*?\]`)\n(.*?)(?=^##+ |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
}
ROW = re.compile(r"^\| `(?P<key>\w+)` \| (?P<default>[^|]*) ?\|", re.MULTILINE)
IN_OTHER_SECTIONS = {"targets", "caps", "budget", "rules", "results", "labels", "name", "sign_in"}


def keys(section: str) -> dict[str, str]:
    """Read the keys of a section, with their defaults."""
    return {row["key"]: row["default"].strip() for row in ROW.finditer(SECTIONS[section])}


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ("[defaults]", DefaultsTable),
        ("[defaults.caps]", Caps),
        ("[defaults.budget]", ServerBudget),
        ("[models.NAME]", Model),
        ("[servers.NAME]", ServerEntry),
        ("[notify]", Notify),
        ("[[notify.targets]]", NoticeTarget),
        ("[review]", Reviewing),
        ("[review.sign_in]", SignIn),
        ("[auth]", AccessTokens),
        ("[policy]", Policy),
        ("[[policy.rules]]", Rule),
        ("[[policy.results]]", ResultRule),
        ("[[policy.labels]]", LabelRule),
    ],
)
def test_every_key_is_on_the_page(section: str, kind: type[msgspec.Struct]):
    """And none that there is not."""
    assert set(keys(section)) | IN_OTHER_SECTIONS == set(kind.__struct_fields__) | IN_OTHER_SECTIONS


def test_the_steps_of_a_price_are_on_the_page():
    """They have no table of their own."""
    assert all(f"{name} = " in SECTIONS["[models.NAME]"] for name in PriceStep.__struct_fields__)


def test_the_defaults_are_those_of_the_code():
    """Figures drift."""
    caps = {name: int(value) for name, value in keys("[defaults.caps]").items()}
    assert caps == msgspec.structs.asdict(STANDARD.caps)
    dollars = {name: float(value) if value else None for name, value in keys("[defaults.budget]").items()}
    assert dollars == {
        name: None if value is None else float(value) for name, value in msgspec.structs.asdict(STANDARD.budget).items()
    }
    said = keys("[defaults]")
    assert (float(said["review_timeout"]), float(said["generate_timeout"])) == (REVIEW_TIMEOUT, GENERATE_TIMEOUT)
    assert int(said["attempts"]) == RetryPatience().attempts
    assert (said["review"], said["review_response"]) == ('`"ask"`', '`"never"`')


@pytest.mark.parametrize("page", [p for p in PAGES if any(b.language == "toml" for b in blocks(p))], ids=title)
def test_what_a_page_shows_can_be_read(page: Path):
    """Every block of TOML is a configuration."""
    for block in blocks(page):
        if block.language == "toml":
            parse_document(block.text, f"{title(page)}:{block.line}")
