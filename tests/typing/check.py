"""Has mypy and pyright look at mistakes.py and correct.py, as at a user's program. `.ci/run` calls this.

    python tests/typing/check.py

Each line of mistakes.py that is marked has to be reported by both, and no other line by either. Then pyright
counts how much of the public surface has a known type: all of it. Exit code 1 where something does not hold.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = (HERE / "mistakes.py", HERE / "correct.py")
MARK = "# mistake:"
#: pyright finds the packages of this interpreter by the PATH, for `--verifytypes` by that alone.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

Places = set[tuple[str, int]]


def marked() -> Places:
    """The lines that hold a mistake."""
    found = set()
    for program in PROGRAMS:
        for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1):
            if MARK in line:
                found.add((program.name, number))
    return found


def by_mypy() -> Places:
    """The lines that mypy reports, in its strict mode."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--no-error-summary",
        *map(str, PROGRAMS),
    ]
    printed = _run(command).stdout
    return {
        (Path(name).name, int(line)) for name, line in re.findall(r"^(.+?):(\d+): error:", printed, re.MULTILINE)
    }


def by_pyright() -> Places:
    """The lines that pyright reports as errors, in its strict mode."""
    report = _pyright("--outputjson", "--project", str(HERE))
    return {
        (Path(found["file"]).name, found["range"]["start"]["line"] + 1)
        for found in report["generalDiagnostics"]
        if found["severity"] == "error"
    }


def completeness() -> tuple[float, list[str]]:
    """The share of public symbols whose type is known, and what is said of the others."""
    report = _pyright("--outputjson", "--ignoreexternal", "--verifytypes", "trio_mcp")["typeCompleteness"]
    unknown = [
        f"{symbol['name']}: {message['message']}"
        for symbol in report["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
        for message in symbol["diagnostics"] or [{"message": "its type is not known"}]
    ]
    return report["completenessScore"], unknown


def _pyright(*options: str) -> dict[str, object] | object:
    return json.loads(_run([sys.executable, "-m", "pyright", *options]).stdout)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=HERE, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def main() -> int:
    """Print what does not hold; the exit code."""
    expected, failed = marked(), False
    for checker, reported in (("mypy", by_mypy()), ("pyright", by_pyright())):
        for verdict, places in (("misses", expected - reported), ("wrongly reports", reported - expected)):
            for name, line in sorted(places):
                failed = True
                print(f"{checker} {verdict} tests/typing/{name}:{line}")
        print(f"{checker}: {len(expected & reported)} of {len(expected)} mistakes reported")
    share, unknown = completeness()
    print(f"pyright --verifytypes: {share:.2%} of the public symbols have a known type")
    for text in unknown:
        print(f"  {text}")
    return 1 if failed or share < 1 else 0


if __name__ == "__main__":
    sys.exit(main())
