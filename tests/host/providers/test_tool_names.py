"""Names of tools as every model service accepts them."""

from __future__ import annotations

from antiphon.host.providers.base import plain_names


def test_a_name_that_services_accept_stays():
    """Even if an earlier tool would be given that name."""
    assert plain_names(["a.b", "a_b", "price"]) == ["a_b_2", "a_b", "price"]


def test_each_name_is_given_once():
    """Of equal names the first tool keeps it."""
    assert plain_names(["price", "price", "price"]) == ["price", "price_2", "price_3"]


def test_what_no_service_accepts_is_replaced():
    """Other letters, too many of them, or none."""
    assert plain_names(["prix/été", "", "x" * 70, "x" * 71]) == ["prix__t_", "unnamed", "x" * 58, f"{'x' * 58}_2"]


def test_many_names_that_become_the_same_are_numbered_at_once():
    """A hostile server can list thousands of them; trying each number for each name would take minutes."""
    names = plain_names(["é"] * 30_000)
    assert (names[0], names[-1], len(set(names))) == ("_", "__30000", 30_000)
