"""Public names of packages, each loaded when it is first used, and the extras that packages need.

The names of a package stand once: in the stub beside the package, where type checkers read them as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any


def load_public_name(package: str, name: str) -> object:
    """Load a name of a package, or its ``__all__``, and keep it there; ``ImportError`` for one that is elsewhere."""
    module: Any = sys.modules[package]
    homes = _read_stub(module)
    if name == "__all__":
        value: object = list(homes)
    elif name in homes:
        value = getattr(import_module(homes[name]), name)
    else:
        from antiphon.machine.other_frameworks import find_name

        if not name.startswith("_") and (found := find_name(name)) is not None:
            # An AttributeError would lose its text in `from antiphon import NAME`.
            raise ImportError(found)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    setattr(module, name, value)
    return value


def make_name_loader(package: str) -> Callable[[str], object]:
    """Return ``load_public_name`` of one package, to be its ``__getattr__``."""
    return partial(load_public_name, package)


def _read_stub(module: Any) -> Mapping[str, str]:
    """Return the modules of a package's public names, from the imports in its stub."""
    stub: bytes = module.__spec__.loader.get_data(f"{module.__file__}i")
    homes: dict[str, str] = {}
    for statement in stub.decode().split("from ")[1:]:
        home, _, names = statement.partition(" import ")
        homes.update((each.split()[-1], home) for each in names.strip("()\n ").split(",") if each.strip())
    return homes


def describe_install(extra: str) -> str:
    """Return the command that installs an extra, from the folder that holds the clone, for the end of a message."""
    return f"pip install './antiphon[{extra}]' (./antiphon is your clone of it)"
