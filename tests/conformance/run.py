"""Installs the official conformance suite and plays its client scenarios: `python tests/conformance/run.py`.

The suite and its Node lie beside the servers of tests/interop. Each scenario is run by itself: then a warning, a
timeout and an exit status count too, and the one that measures time is not disturbed. Scenarios in
expected_failures.yaml are left out, and must be among those that the suite requires. The exit status is 1 when a
scenario does not pass.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.interop import install  # noqa: E402 - run as a script, the tests are no package that is installed

PACKAGE, VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
REVISIONS = ("2026-07-28", "2025-11-25")
#: Not required, and passed all the same.
BESIDES = ("json-schema-2020-12-preservation",)

HOME = install.HOME / "conformance"
SUITE = HOME / "node_modules" / PACKAGE
#: Seconds for one scenario: the suite itself gives a client 30.
PATIENCE = 90


def install_suite() -> None:
    """Install Node and the suite, unless they are there."""
    install.HOME.mkdir(parents=True, exist_ok=True)
    install.install_environment("node")
    install.install_package(HOME, PACKAGE, VERSION)


def required(revision: str) -> list[str]:
    """The client scenarios that the suite scores for a revision."""
    text = (SUITE / "requirements" / f"{revision}.yaml").read_text()
    return list(_entries(text, "client"))


def expected_failures() -> set[str]:
    """The scenarios that are not played yet."""
    return set(_entries(Path(__file__).with_name("expected_failures.yaml").read_text(), "client"))


def _entries(text: str, section: str) -> Iterator[str]:
    """The items of one list of a plain YAML file."""
    current = ""
    for line in text.splitlines():
        if found := re.fullmatch(r"([\w-]+):", line):
            current = found[1]
        elif current == section and (found := re.fullmatch(r"\s+- ([\w./-]+)", line)):
            yield found[1]


def play(scenario: str, revision: str) -> bool:
    """Run one scenario; whether it passed. What it says is shown where it did not."""
    client = shlex.join([sys.executable, str(Path(__file__).with_name("client.py"))])
    with tempfile.TemporaryDirectory() as results:
        done = subprocess.run(
            [
                *(str(install.node_tool("node")), str(SUITE / "dist" / "index.js"), "client"),
                *("--command", client, "--scenario", scenario, "--spec-version", revision),
                *("--output-dir", results, "--verbose"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    verdict = re.search(r"^Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings$", done.stdout, re.MULTILINE)
    passed = done.returncode == 0 and verdict is not None and verdict[3] == verdict[4] == "0"
    print(
        f"{'passed' if passed else 'FAILED'}  {revision}  {scenario}  {verdict[0] if verdict else ''}", flush=True
    )
    if not passed:
        print(done.stdout)
    return passed


def main() -> int:
    """Play everything, or the scenarios named on the command line."""
    install_suite()
    left_out = expected_failures()
    every = {revision: required(revision) for revision in REVISIONS}
    stale = left_out.difference(*every.values())
    if stale or not all(every.values()):
        print(f"expected_failures.yaml names what is not required: {', '.join(sorted(stale))}")
        return 1
    named = sys.argv[1:]
    passed = [
        play(scenario, revision)
        for revision in REVISIONS
        for scenario in (*every[revision], *BESIDES)
        if scenario not in left_out and (not named or scenario in named)
    ]
    print(f"{sum(passed)} of {len(passed)} scenarios passed, {len(left_out)} left out")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
