"""Installs the official conformance suite and plays its scenarios: `python tests/conformance/run.py`.

`run.py client` and `run.py server` play one side's alone; names of scenarios may follow.

The suite and its Node lie beside the servers of tests/interop. Each scenario is run by itself: then a warning, a
timeout and an exit status count too, and the one that measures time is not disturbed. Scenarios in
expected_failures.yaml are left out, and must be among those that the suite requires: for the client what it does
not do yet, for the server what does not apply to one that has only tools. The exit status is 1 when a scenario
does not pass.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.interop import install  # noqa: E402 - run as a script, the tests are no package that is installed

PACKAGE, VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
REVISIONS = ("2026-07-28", "2025-11-25")
#: Not required, and passed all the same: by the client, and by the server in each revision.
BESIDES = ("json-schema-2020-12-preservation",)
SERVER_BESIDES = {
    "2026-07-28": ("json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"),
    "2025-11-25": ("json-schema-2020-12", "server-session-lifecycle"),
}

HOME = install.HOME / "conformance"
SUITE = HOME / "node_modules" / PACKAGE
#: Seconds for one scenario: the suite itself gives a client 30.
PATIENCE = 90


def install_suite() -> None:
    """Install Node and the suite, unless they are there."""
    install.HOME.mkdir(parents=True, exist_ok=True)
    install.install_environment("node")
    install.install_package(HOME, PACKAGE, VERSION)


def required(revision: str, side: str) -> list[str]:
    """The scenarios that the suite scores for a revision, of the "client" or the "server"."""
    text = (SUITE / "requirements" / f"{revision}.yaml").read_text()
    return list(_entries(text, side))


def expected_failures(side: str) -> set[str]:
    """The scenarios that are not played."""
    return set(_entries(Path(__file__).with_name("expected_failures.yaml").read_text(), side))


def _entries(text: str, section: str) -> Iterator[str]:
    """The items of one list of a plain YAML file."""
    current = ""
    for line in text.splitlines():
        if found := re.fullmatch(r"([\w-]+):", line):
            current = found[1]
        elif current == section and (found := re.fullmatch(r"\s+- ([\w./-]+)", line)):
            yield found[1]


def play(scenario: str, revision: str, *under_test: str) -> bool:
    """Run one scenario; whether it passed. What it says is shown where it did not."""
    with tempfile.TemporaryDirectory() as results:
        done = subprocess.run(
            [
                *(str(install.node_tool("node")), str(SUITE / "dist" / "index.js"), *under_test),
                *("--scenario", scenario, "--spec-version", revision, "--output-dir", results, "--verbose"),
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


def clients(named: list[str]) -> list[bool]:
    """Play the scenarios of the client under test."""
    client = shlex.join([sys.executable, str(Path(__file__).with_name("client.py"))])
    return [
        play(scenario, revision, "client", "--command", client)
        for revision in REVISIONS
        for scenario in _played(revision, "client", BESIDES, named)
    ]


def servers(named: list[str]) -> list[bool]:
    """Play the scenarios of the server under test: one server for all of them, as it is in life."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("server.py")), str(port)]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        _wait_listening(port, server)
        return [
            play(scenario, revision, "server", "--url", f"http://localhost:{port}/mcp")
            for revision in REVISIONS
            for scenario in _played(revision, "server", SERVER_BESIDES[revision], named)
        ]
    finally:
        server.terminate()
        server.wait()


def _wait_listening(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("localhost", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the server under test does not listen")


def _played(revision: str, side: str, besides: tuple[str, ...], named: list[str]) -> Iterator[str]:
    left_out = expected_failures(side)
    for scenario in (*required(revision, side), *besides):
        if scenario in left_out:
            print(f"left out  {revision}  {scenario}", flush=True)
        elif not named or scenario in named:
            yield scenario


def main() -> int:
    """Play everything, or the scenarios named on the command line."""
    install_suite()
    named = sys.argv[1:]
    sides = [named.pop(0)] if named and named[0] in ("client", "server") else ["client", "server"]
    for side in sides:
        every = [set(required(revision, side)) for revision in REVISIONS]
        stale = expected_failures(side).difference(*every)
        if stale or not all(every):
            print(f"expected_failures.yaml names what is not required: {', '.join(sorted(stale))}")
            return 1
    passed = [one for side in sides for one in (clients(named) if side == "client" else servers(named))]
    left_out = sum(len(expected_failures(side)) for side in sides)
    print(f"{sum(passed)} of {len(passed)} scenarios passed, {left_out} left out")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
