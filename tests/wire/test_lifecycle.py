"""Handshake, discovery, progress and cancellation."""

from __future__ import annotations

import pytest

from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.lifecycle import (
    CancelledNotificationParams,
    InitializeRequestParams,
    ListChangedCapability,
    ProgressNotificationParams,
    ResourcesCapability,
    ServerCapabilities,
)


def test_a_handshake_of_an_unknown_revision_decodes():
    """Which revisions are spoken is not the wire's business."""
    data = b'{"protocolVersion":"2099-01-01","capabilities":{"hover":{}},"clientInfo":{"name":"n","version":"1"}}'
    params = decode_wire(data, InitializeRequestParams)
    assert params.protocol_version == "2099-01-01"
    assert params.capabilities.sampling is None


def test_server_capabilities_are_offered_by_being_there():
    """However empty."""
    offered = ServerCapabilities(
        logging={}, tools=ListChangedCapability(), resources=ResourcesCapability(subscribe=True)
    )
    assert encode_value(offered) == b'{"logging":{},"resources":{"subscribe":true},"tools":{}}'
    assert decode_wire(encode_value(offered), ServerCapabilities) == offered


@pytest.mark.parametrize("progress", [0, 1, 0.5, 10**18])
def test_progress_keeps_its_kind_of_number(progress):
    """An integer stays one."""
    sent = decode_wire(
        encode_value(ProgressNotificationParams(progress_token=1, progress=progress)), ProgressNotificationParams
    )
    assert sent.progress == progress
    assert type(sent.progress) is type(progress)


@pytest.mark.parametrize("id", [0, "0", ""])
def test_cancellation_names_a_request(id):
    """0 and "0" are two requests."""
    assert (
        decode_wire(encode_value(CancelledNotificationParams(request_id=id)), CancelledNotificationParams).request_id
        == id
    )
