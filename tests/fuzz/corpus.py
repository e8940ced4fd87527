"""The good frames that the fuzz runs start from: what the scenario scripts send, with their wildcards made concrete."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from tests.fuzz.mutation import encoded
from tests.scenarios.runner import SCRIPTS, read_script

__all__ = ["frames_of"]

CONCRETE = {"<any>": {}, "<string>": "text", "<integer>": 1, "<ask>": 1, "<=ask>": 1, "<one>": 2, "<=one>": 2}


@cache
def frames_of(side: Literal["client", "server"]) -> list[bytes]:
    """List every frame that one side sends in any script."""
    lines = [line for name in SCRIPTS for line in read_script(name) if line.side == side]
    return [line.raw.encode() if line.raw is not None else encoded(concrete(line.frame)) for line in lines]


def concrete(value: Any) -> Any:
    """Put something plausible where a script has a wildcard."""
    if isinstance(value, dict):
        return {str(concrete(key)): concrete(item) for key, item in value.items() if key != "<rest>"}
    if isinstance(value, list):
        return [concrete(item) for item in value if item != "<rest>"]
    if isinstance(value, str) and value.startswith("<") and value.endswith(">"):
        return CONCRETE.get(value, value.strip("<=>"))
    return value
