"""What holds for the tree as a whole: a light import, short files, empty package files."""

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
SOURCES = sorted(path for folder in ("trio_mcp", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))

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


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_stays_under_400_lines(path: Path) -> None:
    """A test file may have a table of cases as long again: it has one noun all the same."""
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines < (800 if path.is_relative_to(ROOT / "tests") else 400)


def test_package_files_inside_are_empty() -> None:
    """A name has one home; users import it from `trio_mcp` or `trio_mcp.testing`, which re-export it."""
    public = {ROOT / "trio_mcp", ROOT / "trio_mcp" / "testing"}
    inside = [path for path in (ROOT / "trio_mcp").rglob("__init__.py") if path.parent not in public]
    assert inside
    assert [str(path) for path in inside if path.read_text().strip()] == []


def test_every_file_says_what_it_is_for() -> None:
    sources = [path for path in SOURCES if path.name != "__init__.py"]
    assert [
        str(path) for path in sources if not path.read_text(encoding="utf-8").startswith(('"""', 'r"""'))
    ] == []


def test_no_file_is_a_drawer_for_odds_and_ends() -> None:
    assert [str(path) for path in SOURCES if path.stem in {"utils", "util", "helpers", "common", "misc"}] == []


def _modules() -> list[str]:
    found = pkgutil.walk_packages([str(ROOT / "trio_mcp")], "trio_mcp.")
    return sorted(module.name for module in found if not module.name.endswith("__main__"))


@pytest.mark.parametrize("name", _modules())
def test_the_examples_in_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_type_checkers_see_every_public_name() -> None:
    """The names under TYPE_CHECKING are those that are loaded lazily, from the same homes."""
    source = (ROOT / "trio_mcp" / "__init__.py").read_text(encoding="utf-8")
    seen = re.findall(r"^    from \.(\S+) import (\w+) as \2$", source, re.MULTILINE)
    assert sorted(seen) == sorted((home, name) for name, home in trio_mcp._HOME_OF.items())
    for name in trio_mcp.__all__:
        assert getattr(trio_mcp, name) is not None
