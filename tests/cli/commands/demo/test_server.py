from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli.commands.demo.server import Store, catalogue
from antiphon.errors import ConfigError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a shop."""
    return tmp_path / "shop.db"


def test_the_products_are_real_looking():
    """Each with a name of its own, a price and keywords."""
    arrivals = catalogue()
    assert len({arrival.name for arrival in arrivals}) == len(arrivals) >= 20
    assert all(arrival.price > 0 and arrival.keywords for arrival in arrivals)


def test_products_are_numbered_as_they_arrive(path: Path):
    """The same product arriving again is another one."""
    store = Store(path)
    first = catalogue()[0]
    assert [store.add(first).sku, store.add(first).sku] == ["P-1001", "P-1002"]
    store.close()


def test_a_description_is_kept(path: Path):
    """Over a restart, with who wrote it."""
    store = Store(path)
    product, other = store.add(catalogue()[0]), store.add(catalogue()[1])
    store.describe(product.sku, "Soft.", "echo")
    store.close()
    again = Store(path)
    assert [(one.sku, one.description, one.model) for one in again.described()] == [("P-1001", "Soft.", "echo")]
    assert again.undescribed() == [other]
    assert again.get("P-1002") == other
    again.close()


@pytest.mark.parametrize("sku", ["P-1", "1001; DROP TABLE products", "P-", "P-99999999999999999999"])
def test_an_unknown_product_is_none(path: Path, sku: str):
    """Whatever its name."""
    store = Store(path)
    assert store.get(sku) is None
    store.close()


def test_a_file_that_is_no_shop_is_named(path: Path):
    """It is not overwritten."""
    path.write_text("This is a letter, not a database, and longer than a header." * 20, encoding="utf-8")
    with pytest.raises(ConfigError, match="not a database"):
        Store(path)
    assert path.read_text(encoding="utf-8").startswith("This is a letter")
