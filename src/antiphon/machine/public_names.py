"""Public names of packages, each loaded when it is first used, so that importing a package loads nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

__all__ = ["load_public_name"]


def load_public_name(package: str, homes: Mapping[str, str], name: str) -> object:
    """Load a name of a package, and keep it there: the ``__getattr__`` of the package.

    Args:
        package: the package.
        homes: its modules, each with the public names that come from it, separated by spaces.
        name: the name.

    Raises:
        AttributeError: it is not public.
    """
    for module, names in homes.items():
        if name in names.split():
            value: object = getattr(import_module(module), name)
            setattr(import_module(package), name, value)
            return value
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
