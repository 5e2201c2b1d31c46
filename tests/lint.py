"""Rules of the source tree that ruff cannot express. `.ci/run` runs this beside ruff; it imports nothing of ours.

    python -m tests.lint

- A file stays under 400 lines, a file of tests under 800: a table of cases may be as long again.
- A file begins with a docstring that says what it is for.
- No file is a drawer for odds and ends.
- The `__init__.py` files inside trio_mcp are empty, but for the packages that re-export what users import.

Each breach is one line, `path: what is wrong`; the exit status is 1 if there is any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("trio_mcp", "tests", "benchmarks", "docs")
LINES, LINES_OF_TESTS = 400, 800
DRAWERS = {"utils", "util", "helpers", "common", "misc"}
#: What users import from these; everything else has its one home in a module.
REEXPORTING = {"trio_mcp", "trio_mcp/testing"}


def breaches(path: Path) -> Iterator[str]:
    """What is wrong with one file, given relative to the root."""
    text = (ROOT / path).read_text(encoding="utf-8")
    bound = LINES_OF_TESTS if path.parts[0] == "tests" else LINES
    lines = text.count("\n")
    if lines >= bound:
        yield f"has {lines} lines, the bound is {bound}: cut it along its nouns"
    if path.stem in DRAWERS:
        yield "is named like a drawer for odds and ends: name the one noun that it holds"
    if path.name != "__init__.py":
        if not text.startswith(('"""', 'r"""')):
            yield "does not begin with a docstring that says what it is for"
    elif path.parts[0] == "trio_mcp" and str(path.parent) not in REEXPORTING and text.strip():
        yield "is not empty: a name has one home, and only the outermost package re-exports it"


def main() -> int:
    """Print every breach in the tree; the exit status."""
    paths = sorted(path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    found = [f"{path}: {breach}" for path in paths for breach in breaches(path)]
    print("\n".join(found) if found else f"{len(paths)} files keep the rules of tests/lint.py")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
