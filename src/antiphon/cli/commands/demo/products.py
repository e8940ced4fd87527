"""The shop's products and their descriptions, in a SQLite file.

Used from one thread; a statement takes far less than a millisecond, so it needs no thread of its own.
"""

from __future__ import annotations

import json
import sqlite3
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from antiphon.errors import ConfigError

__all__ = ["STORE_VARIABLE", "Arrival", "Product", "Store", "catalogue"]

STORE_VARIABLE = "ANTIPHON_DEMO_STORE"
"""Environment variable that names the file of the shop to its server."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS products (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    price REAL NOT NULL,
    keywords TEXT NOT NULL,
    description TEXT,
    model TEXT
)
"""
_SELECT = "SELECT number, name, price, keywords, description, model FROM products"
_FIRST_NUMBER = 1001


class Arrival(Struct, frozen=True, kw_only=True):
    """A product as announced by its maker."""

    name: str
    price: float
    keywords: list[str]


class Product(Arrival, frozen=True, kw_only=True, omit_defaults=True):
    """A product in the shop, with its description if there is one, and the model that wrote it."""

    sku: str
    description: str | None = None
    model: str | None = None


def catalogue() -> list[Arrival]:
    """Read the products, which arrive over and over, from the data of the package."""
    data = files("antiphon.cli.commands.demo").joinpath("products.json").read_bytes()
    return msgspec.json.decode(data, type=list[Arrival])


class Store:
    """The products of one shop."""

    def __init__(self, path: str | Path) -> None:
        """Open the file, or create it.

        Raises:
            ConfigError: it is no such file, or cannot be written.
        """
        self._path = path
        database: sqlite3.Connection | None = None
        try:
            database = sqlite3.connect(path, isolation_level=None)
            database.execute(_SCHEMA)
        except sqlite3.Error as error:
            if database is not None:
                database.close()
            raise ConfigError(f"{path}: {error}") from None
        self._database = database

    def add(self, arrival: Arrival) -> Product:
        """Add a new product, and return it with its number."""
        last = self._database.execute("SELECT max(number) FROM products").fetchone()[0]
        number = _FIRST_NUMBER if last is None else last + 1
        self._database.execute(
            "INSERT INTO products (number, name, price, keywords) VALUES (?, ?, ?, ?)",
            (number, arrival.name, arrival.price, json.dumps(arrival.keywords)),
        )
        return _product(number, arrival.name, arrival.price, json.dumps(arrival.keywords), None, None)

    def describe(self, sku: str, description: str, model: str) -> None:
        """Store a description and the model that wrote it."""
        self._database.execute(
            "UPDATE products SET description = ?, model = ? WHERE number = ?", (description, model, _number(sku))
        )

    def get(self, sku: str) -> Product | None:
        """Return one product, or ``None``."""
        row = self._database.execute(f"{_SELECT} WHERE number = ?", (_number(sku),)).fetchone()
        return _product(*row) if row is not None else None

    def described(self) -> list[Product]:
        """Return the products that have a description, the oldest first."""
        return self._all(f"{_SELECT} WHERE description IS NOT NULL ORDER BY number")

    def undescribed(self) -> list[Product]:
        """Return the products without a description, the oldest first."""
        return self._all(f"{_SELECT} WHERE description IS NULL ORDER BY number")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _all(self, query: str) -> list[Product]:
        return [_product(*row) for row in self._database.execute(query)]


def _product(
    number: int, name: str, price: float, keywords: str, description: str | None, model: str | None
) -> Product:
    return Product(
        sku=f"P-{number}",
        name=name,
        price=price,
        keywords=json.loads(keywords),
        description=description,
        model=model,
    )


def _number(sku: str) -> int:
    digits = sku.removeprefix("P-")
    return int(digits) if digits.isdecimal() and len(digits) < 10 else -1
