"""What holds for the package as a whole: a light import, examples that run, names that type checkers see.

Rules that concern source files as texts are in lint.py.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import trio_mcp

ROOT = Path(__file__).resolve().parents[1]

#: What costs more than a user of one small server should pay for `import trio_mcp`.
HEAVY = ("httpx", "httpcore", "hypercorn", "rich", "cyclopts", "importlib.metadata")


def _imported_by(statement: str) -> set[str]:
    """The names that `python -X importtime` prints for the statement, in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}


def test_importing_the_package_loads_nothing_heavy() -> None:
    # Interpreters may load some of it at start (a .pth file of an editable install): that is not our doing.
    at_start = _imported_by("pass")
    imported = _imported_by("import trio_mcp") - at_start
    assert "trio_mcp" in imported
    assert [name for name in sorted(imported) if name.startswith(HEAVY)] == []


def _modules() -> dict[str, list[str]]:
    """The package's modules by room; the modules beside the rooms are under `trio_mcp`."""
    rooms: dict[str, list[str]] = {}
    for module in pkgutil.walk_packages([str(ROOT / "trio_mcp")], "trio_mcp."):
        parts = module.name.split(".")
        if parts[-1] != "__main__":
            room = parts[1] if module.ispkg or len(parts) > 2 else "trio_mcp"
            rooms.setdefault(room, []).append(module.name)
    return rooms


@pytest.mark.parametrize("names", [pytest.param(names, id=room) for room, names in _modules().items()])
def test_the_examples_in_docstrings_run(names: list[str]) -> None:
    for name in names:
        assert doctest.testmod(importlib.import_module(name)).failed == 0, name


def test_type_checkers_see_every_public_name() -> None:
    """The names under TYPE_CHECKING are those that are loaded lazily, from the same homes."""
    source = (ROOT / "trio_mcp" / "__init__.py").read_text(encoding="utf-8")
    homes: dict[str, str] = vars(trio_mcp)["_HOME_OF"]  # hidden from type checkers
    seen = re.findall(r"^    from \.(\S+) import (\w+) as \2$", source, re.MULTILINE)
    assert sorted(seen) == sorted((home, name) for name, home in homes.items())
    assert sorted(trio_mcp.__all__) == sorted(["__version__", *homes])
    for name in trio_mcp.__all__:
        assert getattr(trio_mcp, name) is not None
