"""The machine in general terms, and how busy it was with other things. No paths, no names of hosts."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["Busy", "describe"]

PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")


class Busy(NamedTuple):
    """What all processors together had done at one time, in seconds."""

    worked: float
    stolen: float
    """Time a hypervisor gave to others."""

    @classmethod
    def now(cls) -> Busy:
        """Read the counters."""
        first = (PROC / "stat").read_text(encoding="ascii").partition("\n")[0].split()
        user, nice, system, _idle, _wait, hard, soft, stolen = (int(value) / TICK for value in first[1:9])
        return cls(user + nice + system + hard + soft, stolen)

    def since(self, ours: float, took: float) -> dict[str, float]:
        """Return which shares of all processors went to others on this machine, and to other machines."""
        now, all_of_it = Busy.now(), took * (os.cpu_count() or 1)
        return {
            "others": max(0.0, now.worked - self.worked - ours) / all_of_it,
            "stolen": (now.stolen - self.stolen) / all_of_it,
        }


def model() -> str:
    """Name the processor."""
    for line in (PROC / "cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def describe() -> dict[str, str]:
    """Describe the machine: processor, cores, memory, systems, date."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "processor": model(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
