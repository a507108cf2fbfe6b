"""The machine that figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from otspec.extras import DISTRIBUTION, installed


def processor() -> str:
    """The processor's name, as the system reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def load_average() -> float | None:
    """How many processes wanted a core in the last minute, on average; None where the system does not report it."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def versions(*packages: str) -> dict[str, str]:
    """Versions of otspec and of those packages that are installed."""
    found = {name: metadata.version(name) for name in packages if installed(name)}
    try:
        own = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:  # a checkout on the path, as on a machine where nothing can be installed
        own = "not installed"
    return {"otspec": own, **found}
