"""The shop that the tools read: its products, carts and orders, and what each tool must answer. It does no I/O.

The sizes and the figures that are checked (100,000 products, 2,251 of them found) are those of the published benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

__all__ = [
    "BASKET",
    "PRODUCTS",
    "SEARCH",
    "basket_total",
    "cart_of",
    "expected_answer",
    "find_products",
    "history_of",
    "popularity_of",
    "product",
    "user_id",
]

PRODUCTS = 100_000
CATEGORIES = (
    "Electronics", "Books", "Clothing", "Sports", "Home", "Garden", "Toys", "Food", "Beauty", "Automotive",
    "Music", "Movies", "Games", "Office", "Health", "Pets", "Travel", "Tools", "Jewelry", "Baby",
)  # fmt: skip
SEARCH: dict[str, Any] = {"category": "Electronics", "min_price": 50.0, "max_price": 500.0, "limit": 10}
"""The arguments of every search."""
BASKET: list[dict[str, int]] = [{"product_id": 42, "quantity": 2}, {"product_id": 1337, "quantity": 1}]
"""What every user buys. The first product becomes more popular with each purchase, but never one of the first ten."""
FAVOURITE = 4_921
"""The most popular product, which the search finds: so a rank is in the answer that is checked."""
ENTRIES = 20
"""Orders in a history at the start."""
SHOWN = 5
"""Orders of a history that a cart comes with."""


def user_id(number: int) -> str:
    """Name a user."""
    return f"user-{number:05d}"


def product(number: int) -> dict[str, Any]:
    """Return a product of the catalogue, 1 to ``PRODUCTS``."""
    index = number - 1
    category = CATEGORIES[index % len(CATEGORIES)]
    return {
        "id": number,
        "sku": f"SKU-{number:06d}",
        "name": f"{category} item {number}",
        "category": category,
        "price": round(1 + index % 99_900 / 100, 2),
        "stock": index % 501,
        "rating": round(1 + index % 40 / 10, 1),
        "tags": ["new", "sale", "featured"][: 1 + index % 3],
        "description": f"One of {PRODUCTS} things, number {number}.",
    }


@cache
def find_products(category: str, min_price: float, max_price: float, limit: int) -> dict[str, Any]:
    """Return how many products of a category have such a price, and the cheapest of them."""
    numbers = range(CATEGORIES.index(category) + 1, PRODUCTS + 1, len(CATEGORIES))
    found = [one for one in map(product, numbers) if min_price <= one["price"] <= max_price]
    found.sort(key=lambda one: one["price"])
    return {"category": category, "total_found": len(found), "products": found[:limit]}


def popularity_of(number: int) -> int:
    """Return the score of a product at the start: no two have the same."""
    return 2 * PRODUCTS if number == FAVOURITE else number


def cart_of(number: int) -> dict[str, Any]:
    """Return the cart of a user: its items, and their total as text."""
    items = [{"product_id": number * factor % PRODUCTS + 1, "qty": 1 + number % 3} for factor in (7, 13)]
    return {"items": items, "total": f"{number * 1.25:.2f}"}


def history_of(number: int) -> list[dict[str, Any]]:
    """Return the orders of a user at the start, the first one first."""
    return [
        {"order_id": f"ORD-{number:05d}-{order:02d}", "product_id": number * order % PRODUCTS + 1, "qty": 1 + order % 3}
        for order in range(1, ENTRIES + 1)
    ]


def basket_total(user: str, items: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """Return what a basket costs: with tax, and with shipping below 100 or a discount from there."""
    subtotal = round(sum(product(item["product_id"])["price"] * item["quantity"] for item in items), 2)
    tax = round(subtotal * 0.085, 2)
    discount, shipping = (round(subtotal * 0.1, 2), 0.0) if subtotal >= 100 else (0.0, 5.99)
    return {
        "order_id": f"ORD-{user}-{len(items)}",
        "user_id": user,
        "subtotal": subtotal,
        "tax": tax,
        "shipping": shipping,
        "discount": discount,
        "total": round(subtotal + tax + shipping - discount, 2),
        "items_count": len(items),
    }


@cache
def _popular() -> list[int]:
    return sorted(range(1, PRODUCTS + 1), key=popularity_of, reverse=True)[:10]


@cache
def _search_answer() -> dict[str, Any]:
    found, ranks = find_products(**SEARCH), {number: rank for rank, number in enumerate(_popular(), 1)}
    kept = ("id", "sku", "name", "price", "rating")
    return {
        "category": found["category"],
        "total_found": found["total_found"],
        "products": [
            {name: one[name] for name in kept} | {"popularity_rank": ranks.get(one["id"], 0)}
            for one in found["products"]
        ],
        "top10_popular_ids": _popular(),
    }


@cache
def _cart_answer(number: int) -> dict[str, Any]:
    cart = cart_of(number)
    items, total = cart["items"], float(cart["total"])
    return {
        "user_id": user_id(number),
        "cart": {"items": items, "item_count": len(items), "estimated_total": total},
        "recent_history": history_of(number)[:SHOWN],
    }


@cache
def _checkout_answer(number: int) -> dict[str, Any]:
    total = basket_total(user_id(number), BASKET)
    kept = {name: total[name] for name in ("order_id", "user_id", "total", "items_count")}
    return kept | {"status": "confirmed"}


def expected_answer(tool: str, number: int, before: int) -> Any:
    """Return what a tool must answer to a user.

    Args:
        tool: The name of the tool.
        number: The user's number.
        before: How often this user has bought something since the data were as at the start.
    """
    match tool:
        case "search_products":
            return _search_answer()
        case "get_user_cart":
            return _cart_answer(number)
        case "checkout":
            return _checkout_answer(number) | {"rate_limit_count": before + 1}
        case "read_popular":
            return _popular()
        case "read_product":
            return product(number)
        case _:
            return {"user_id": user_id(number)}
