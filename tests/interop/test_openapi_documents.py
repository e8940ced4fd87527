"""Large public documents as servers: every operation is listed, and every schema is valid."""

from __future__ import annotations

import sys

import pytest

from tests.interop.openapi_documents import DOCUMENTS, count_invalid, count_operations, fetch, measure


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_operation_of_a_document_becomes_a_tool(peers, name):
    """With schemas that a validator of 2020-12 takes, and no tool larger than a model's context."""
    package, member = DOCUMENTS[name]
    path = fetch(peers.root / "openapi", package, member)
    got = measure(sys.executable, "ours", path)
    assert len(got["tools"]) == count_operations(path)
    assert count_invalid(got["tools"]) == 0
    assert max(map(len, got["tools"])) < 200_000


def test_a_large_document_takes_no_more_time_than_with_fastmcp(peers):
    """Processor time to make the server and to list all tools; it takes a ninth."""
    package, member = DOCUMENTS["GitHub"]
    path = fetch(peers.root / "openapi", package, member)
    ours = measure(sys.executable, "ours", path)
    theirs = measure(str(peers.root / "fastmcp" / "bin" / "python"), "theirs", path)
    assert len(ours["tools"]) == len(theirs["tools"])
    assert ours["make"] + ours["list"] < theirs["make"] + theirs["list"]
