"""Subscriptions."""

from __future__ import annotations

from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.subscriptions import SubscriptionFilter, SubscriptionsListenRequestParams


def test_a_filter_names_what_is_wanted():
    """And is written even when it wants nothing."""
    wanted = SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["a:b"])
    params = SubscriptionsListenRequestParams(notifications=wanted)
    assert encode_value(params) == b'{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}}'
    assert decode_wire(encode_value(params), SubscriptionsListenRequestParams) == params
    assert encode_value(SubscriptionsListenRequestParams(notifications=SubscriptionFilter())) == b'{"notifications":{}}'
