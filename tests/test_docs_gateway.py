"""The first page about the gateway is for people who do not program."""

from __future__ import annotations

import re

from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "gateway.md"
REFERENCE = ROOT / "docs" / "reference" / "gateway.md"
OF_THE_PROTOCOL = re.compile(
    r"\b(?:MCP|protocols?|sampling|samples?|elicit\w*|hosts?|clients?|servers?|revisions?|stdio|JSON|schemas?|capabilit\w+|"
    r"requestState|URIs?|prompts?|roots?|transports?|sessions?)\b",
    re.IGNORECASE,
)


def prose() -> str:
    """Return what a person reads, without code and the addresses of links."""
    text = re.sub(r"^```.*?^```$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def test_it_has_no_word_of_the_protocol():
    """Who knows these words finds them in the reference, to which the page leads."""
    assert OF_THE_PROTOCOL.findall(prose()) == []
    assert "(../reference/gateway.md)" in PAGE.read_text(encoding="utf-8")
    assert OF_THE_PROTOCOL.search(REFERENCE.read_text(encoding="utf-8"))


def test_it_goes_from_nothing_to_the_first_question_and_back():
    """In this order: install, the first question with a picture, undo."""
    commands = [line.split("#")[0].strip() for block in blocks(PAGE) for line in block.text.splitlines()]
    wanted = [
        "pip install './antiphon[host]'",
        "antiphon install",
        "antiphon install cursor",
        "antiphon uninstall cursor",
    ]
    assert [line for line in commands if line in wanted] == wanted
    assert len(re.findall(r"!\[[^]]+\]\(../images/[\w-]+\.png\)", PAGE.read_text(encoding="utf-8"))) >= 2
