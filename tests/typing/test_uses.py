"""What type checkers are told of the public interface holds when it is run."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.typing.uses import decorated, use

ROOT = Path(__file__).parent.parent.parent


async def test_the_typed_program_runs() -> None:
    """Every value is of the type that the checker sees."""
    decorated()
    assert await use() == "typeda garden typed decline"


def test_the_typed_program_is_checked() -> None:
    """By ``make check``, and the examples with it, as strictly as the library itself, which says that it is typed."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {"tests/typing", "examples"} <= set(settings["tool"]["pyright"]["include"])
    assert (ROOT / "src" / "antiphon" / "py.typed").exists()
