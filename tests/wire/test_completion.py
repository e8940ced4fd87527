"""Completion of arguments."""

from __future__ import annotations

import pytest

from antiphon.wire.completion import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from antiphon.wire.envelope import decode_wire, encode_value


@pytest.mark.parametrize("ref", [PromptReference(name="p"), ResourceTemplateReference(uri="a://{b}")])
def test_references_are_told_apart(ref):
    """By their type."""
    params = CompleteRequestParams(
        ref=ref, argument=CompletionArgument(name="b", value=""), context=CompletionContext(arguments={"a": "x"})
    )
    assert decode_wire(encode_value(params), CompleteRequestParams) == params


def test_no_values_are_values():
    """The list is written, the rest is left out."""
    assert encode_value(CompleteResult(completion=Completion(values=[]))) == b'{"completion":{"values":[]}}'
