"""How an extra of this package is installed: the command that every message names.

The package is not on PyPI yet, so the command installs from a clone, as the README does. The first release changes it
here, and a test then finds the pages that still name the old one.
"""

from __future__ import annotations


def describe_install(extra: str) -> str:
    """Return the command that installs an extra, from the folder that holds the clone, for the end of a message."""
    return f"pip install './antiphon[{extra}]' (./antiphon is your clone of it)"
