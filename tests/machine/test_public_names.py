from __future__ import annotations

import sys
from types import ModuleType

import pytest

from antiphon.machine.public_names import load_public_name

HOMES = {"string": "digits punctuation", "textwrap": "dedent"}


def test_a_name_is_loaded_from_its_module_and_kept(monkeypatch: pytest.MonkeyPatch):
    """The package has it from then on."""
    package = ModuleType("lazy_package")
    monkeypatch.setitem(sys.modules, "lazy_package", package)
    assert load_public_name("lazy_package", HOMES, "punctuation") is vars(package)["punctuation"]


@pytest.mark.parametrize("name", ["ascii_letters", "digits punctuation", "digit", ""])
def test_a_name_that_is_not_listed_is_an_attribute_error(name: str):
    """Other names of the modules are not public."""
    with pytest.raises(AttributeError, match=f"module 'x' has no attribute '{name}'"):
        load_public_name("x", HOMES, name)
