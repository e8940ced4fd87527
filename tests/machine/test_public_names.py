from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

STUB = """from string import digits as digits, punctuation as punctuation
from textwrap import (
    dedent as dedent,
    indent as indent,
)
"""
CODE = """from antiphon.machine.public_names import load_public_name


def __getattr__(name):
    return load_public_name(__name__, name)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import a package with a stub."""
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(CODE, encoding="utf-8")
    (folder / "__init__.pyi").write_text(STUB, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("lazy_package")
    del sys.modules["lazy_package"]


@pytest.mark.parametrize(("home", "name"), [("string", "punctuation"), ("textwrap", "dedent"), ("textwrap", "indent")])
def test_a_name_is_loaded_from_its_module_and_kept(package: ModuleType, home: str, name: str):
    """The package has it from then on."""
    assert getattr(package, name) is vars(package)[name] is getattr(importlib.import_module(home), name)


def test_all_lists_the_names_of_the_stub(package: ModuleType):
    """In the order of the stub."""
    assert package.__all__ == ["digits", "punctuation", "dedent", "indent"]


@pytest.mark.parametrize("name", ["ascii_letters", "digits punctuation", "digit", "", "from"])
def test_a_name_that_is_not_listed_is_an_attribute_error(package: ModuleType, name: str):
    """Other names of the modules are not public."""
    with pytest.raises(AttributeError, match=f"module 'lazy_package' has no attribute '{name}'"):
        getattr(package, name)
