"""The frameworks' own MCP clients, measured by our adapters' cases, are as the documentation has them."""

from __future__ import annotations

import pytest

from tests.adapters.environments import count_passed_cases
from tests.adapters.matrix import CASES, REVISIONS
from tests.adapters.own_clients.table import CLIENTS, NOTES, find_unexplained, measure, read_page, write_column

pytestmark = pytest.mark.timeout(900)


def read_column(framework: str) -> list[str]:
    """Read the cells of a client from the page."""
    rows = [line.split("|") for line in read_page().splitlines() if line.startswith("|")]
    place = rows[0].index(f" {CLIENTS[framework]} ")
    return [row[place].strip() for row in rows[2:]]


def test_the_page_has_a_row_for_each_case_and_says_what_is_missing():
    """Our adapters carry each case on all revisions, which their own tests show."""
    lines = read_page().splitlines()
    rows = [line.split(" | ")[:2] for line in lines if line.startswith("| ")][1:]
    assert rows == [[f"| {case}", "all"] for case in CASES]
    texts = dict.fromkeys(note.text for note in NOTES.values())
    assert [line for line in lines if line[:1].isdigit()] == [f"{at}. {text}" for at, text in enumerate(texts, 1)]


@pytest.mark.interop
@pytest.mark.parametrize("framework", CLIENTS)
async def test_a_client_carries_what_the_page_says(framework: str):
    """Each cell is tried by an agent of the framework; what is missing fails as its note says."""
    column = await measure(framework)
    assert len(column) == len(CASES) * len(REVISIONS)
    assert find_unexplained(framework, column) == []
    assert write_column(framework, column) == read_column(framework)


@pytest.mark.interop
def test_the_cases_of_pydantic_ai_pass_beside_its_own_client():
    """They run with the other tests as well; here in the environment in which its own client is measured."""
    assert count_passed_cases("pydantic_ai", "test_pydantic_ai") > len(CASES) * len(REVISIONS)
