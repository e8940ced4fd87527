"""The benchmark of tools that wait for Redis and HTTP: its data, and one short round of the whole command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.io_bound import shop

ROOT = Path(__file__).parent.parent.parent


def test_a_search_finds_what_the_published_benchmark_finds():
    """Of 100,000 products 2,251 match, and the ten cheapest are returned."""
    found = shop.find_products(**shop.SEARCH)
    assert found["total_found"] == 2_251
    assert [product["price"] for product in found["products"]] == sorted(
        product["price"] for product in found["products"]
    )
    assert found["products"][0]["price"] == 50.0
    assert len(found["products"]) == 10


def test_the_expected_answers_name_the_user_and_count_the_purchases():
    """So an answer that belongs to another user, or to another call, is wrong."""
    assert shop.expected_answer("get_user_cart", 7, 0) != shop.expected_answer("get_user_cart", 8, 0)
    first, second = (shop.expected_answer("checkout", 7, before) for before in (0, 1))
    assert (first["rate_limit_count"], second["rate_limit_count"]) == (1, 2)


def test_no_purchase_changes_which_products_are_popular():
    """The product that everybody buys starts far behind the first ten, so every search has the same answer."""
    popular = shop.expected_answer("read_popular", 1, 0)
    bought, tenth = shop.BASKET[0]["product_id"], popular[-1]
    assert shop.popularity_of(tenth) - shop.popularity_of(bought) > 90_000


@pytest.mark.redis
def test_a_short_round_measures_our_server():
    """Every answer is checked by the command, which fails on a wrong one."""
    options = ["--rounds", "1", "--seconds", "0.1", "--warm", "0.05", "--servers", "antiphon"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.io_bound", *options],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")]
    assert rows.count("Antiphon, aiohttp") == 3
