from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from antiphon.cli.commands.demo.server import ProductStore, catalogue
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


def test_a_description_is_kept(path: Path):
    """Over a restart, with who wrote it; the same product arriving again is another one."""
    store = ProductStore(path)
    first, other = (structs.replace(catalogue()[0], number=number) for number in (1001, 1002))
    described = structs.replace(first, description="Soft.", model="echo")
    for product in (first, other, described):
        store.save(product)
    store.close()
    again = ProductStore(path)
    assert again.products() == [described, other]
    assert [product.sku for product in again.products()] == ["P-1001", "P-1002"]
    again.close()


def test_a_file_that_is_no_shop_is_named(path: Path):
    """It is not overwritten."""
    path.write_text("This is a letter, not a database, and longer than a header." * 20, encoding="utf-8")
    with pytest.raises(ConfigError, match="not a database"):
        ProductStore(path)
    assert path.read_text(encoding="utf-8").startswith("This is a letter")
