"""Calls over stdio: trio_mcp beside the official SDK on trio, and beside floors without an MCP library.

    python benchmarks/stdio_calls.py [--rounds N] [--calls N] [--only NAMES]

Prints a table for each of three rows: small calls 100 at once, small calls one at a time, one text of 32 MiB
echoed. The clients run in alternation, each measurement in a process of its own, and ratios are taken within
a round: a machine that slows down slows all of them. Figures are medians, with the extremes beside them.

This file drives and prints; it imports only the standard library, so that it can say what is missing. What
the clients do is in stdio_clients.py, what they talk to in echo_server.py.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

CLIENTS_PROGRAM = Path(__file__).with_name("stdio_clients.py")

#: The slowest measurement known (the SDK with 32 MiB) takes 15 s; past this a client hangs.
PATIENCE = 300.0

#: What each client is called, what it needs, and what it is.
CLIENTS: dict[str, tuple[str, str]] = {
    "ours": ("trio_mcp", "trio_mcp"),
    "sdk": ("mcp", "the official SDK on anyio's trio backend"),
    "loop": ("trio", "a bare trio and msgspec loop, the first that one writes"),
    "floor": ("trio", "the least that trio and msgspec can do"),
    "sync": ("msgspec", "a blocking loop without trio"),
}


class Goal(NamedTuple):
    """A ratio of ours to a peer: of calls a second, of time, or of client CPU per call. `wanted` may be empty."""

    peer: str
    of: str
    wanted: str


class Row(NamedTuple):
    """One line of the table of figures to reach."""

    title: str
    clients: tuple[str, ...]
    goals: tuple[Goal, ...]
    one_call: bool = False


ROWS: dict[str, Row] = {
    "at-once": Row(
        "{calls:,} small calls, 100 at once",
        ("ours", "sdk", "loop", "floor"),
        (
            Goal("sdk", "rate", ">= 8"),
            Goal("loop", "rate", ">= 0.85"),
            Goal("floor", "rate", ""),
            Goal("sdk", "cpu", ""),
            Goal("loop", "cpu", "<= 1.25"),
            Goal("floor", "cpu", ""),
        ),
    ),
    "one-by-one": Row(
        "{calls:,} small calls, one at a time",
        ("ours", "sdk", "loop", "floor"),
        (
            Goal("sdk", "rate", ">= 3"),
            Goal("loop", "rate", ">= 0.95"),
            Goal("floor", "rate", ""),
            Goal("sdk", "cpu", ""),
            Goal("loop", "cpu", ""),
            Goal("floor", "cpu", ""),
        ),
    ),
    "32-mib": Row(
        "one 32 MiB text result, echoed",
        ("ours", "sdk", "loop", "floor", "sync"),
        (
            Goal("sdk", "rate", ">= 15"),
            Goal("sync", "time", "<= 1.6"),
            Goal("floor", "time", ""),
            Goal("sync", "cpu", ""),
        ),
        one_call=True,
    ),
}


class Measurement(NamedTuple):
    """What one process measured, a call."""

    seconds: float
    cpu: float


Measurements = dict[str, list[Measurement]]


class MeasuringError(Exception):
    """A client did not finish."""


def measure(client: str, row: str, calls: int) -> Measurement:
    """Run one client once, in a process of its own."""
    command = [sys.executable, str(CLIENTS_PROGRAM), client, row, str(calls)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise MeasuringError(f"{client} did not finish within {PATIENCE:.0f} s") from error
    if done.returncode != 0:
        raise MeasuringError(f"{client} failed with status {done.returncode}:\n{done.stderr.strip()}")
    measured = json.loads(done.stdout)
    return Measurement(measured["seconds"] / measured["calls"], measured["cpu"] / measured["calls"])


def measure_in_alternation(row: str, clients: list[str], calls: int, rounds: int) -> Measurements:
    """Every client once a round, another one first each time. One that fails is left out, with its reason."""
    measured: Measurements = {client: [] for client in clients}
    for turn in range(rounds):
        first = turn % len(clients)
        for client in clients[first:] + clients[:first]:
            if client not in measured:
                continue
            if sys.stderr.isatty():
                print(f"\r\x1b[Kround {turn + 1} of {rounds}: {client}", end="", file=sys.stderr, flush=True)
            try:
                measured[client].append(measure(client, row, calls))
            except MeasuringError as error:
                del measured[client]
                print(f"left out: {error}", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return measured


def spread(values: list[float], form: str) -> str:
    """The median, and the extremes in brackets."""
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def print_row(row: Row, calls: int, measured: Measurements) -> None:
    """The figures of each client, then the ratios with the goals beside them."""
    print(f"\n{row.title.format(calls=calls)}")
    print(f"  {'client':8}{'seconds a call' if row.one_call else 'calls/s':>28}{'client CPU a call':>30}")
    for client, runs in measured.items():
        if row.one_call:
            pace = spread([run.seconds for run in runs], ".2f")
            cpu = spread([run.cpu for run in runs], ".2f") + " s"
        else:
            pace = spread([1 / run.seconds for run in runs], ",.0f")
            cpu = spread([run.cpu * 1e6 for run in runs], ",.1f") + " us"
        print(f"  {client:8}{pace:>28}{cpu:>30}")
    if "ours" not in measured:
        return
    print(f"  {'ratio':22}{'median (extremes)':>24}  goal")
    for goal in row.goals:
        if goal.peer not in measured:
            continue
        pairs = zip(measured["ours"], measured[goal.peer], strict=True)
        if goal.of == "cpu":
            ratios = [mine.cpu / theirs.cpu for mine, theirs in pairs]
        elif goal.of == "time":
            ratios = [mine.seconds / theirs.seconds for mine, theirs in pairs]
        else:
            ratios = [theirs.seconds / mine.seconds for mine, theirs in pairs]
        print(f"  {f'ours/{goal.peer}, {goal.of}':22}{spread(ratios, '.2f'):>24}  {goal.wanted}".rstrip())


def missing(client: str) -> str | None:
    """Why a client cannot run in this environment, or None."""
    # The floors and the server need both, and the trio backend of the SDK needs trio.
    for module in dict.fromkeys((CLIENTS[client][0], "trio", "msgspec")):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed in {sys.prefix}; benchmarks/README.md tells how to install it"
    return None


def versions() -> str:
    """What is compared, on what."""
    named = [f"Python {platform.python_version()}"]
    for distribution in ("trio-mcp", "mcp", "trio", "anyio", "msgspec"):
        try:
            named.append(f"{distribution} {importlib.metadata.version(distribution)}")
        except importlib.metadata.PackageNotFoundError:
            named.append(f"{distribution} missing")
    return f"{', '.join(named)}; {os.cpu_count()} CPUs, {platform.system()} {platform.machine()}"


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="stdio_calls.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=positive, default=5, help="measurements of each client (5)")
    parser.add_argument("--calls", type=positive, default=2000, help="small calls 100 at once (2000)")
    parser.add_argument(
        "--only",
        default="",
        metavar="NAMES",
        help=f"rows and clients, with commas between: {', '.join([*ROWS, *CLIENTS])}",
    )
    options = parser.parse_args(argv)
    options.only = [name for name in options.only.split(",") if name]
    for name in options.only:
        if name not in ROWS and name not in CLIENTS:
            parser.error(f"--only: {name} is neither a row nor a client")
    return options


def main(argv: list[str]) -> int:
    """Measure and print; 1 when a client failed, 2 when one asked for by name is missing, or all are."""
    options = arguments(argv)
    rows = [name for name in ROWS if name in options.only] or list(ROWS)
    asked = [name for name in CLIENTS if name in options.only]
    clients: list[str] = []
    for client in asked or CLIENTS:
        if (reason := missing(client)) is None:
            clients.append(client)
        elif client in asked:
            print(f"{client} cannot be measured: {reason}", file=sys.stderr)
            return 2
        else:
            print(f"left out: {client}: {reason}", file=sys.stderr)
    if not clients:
        print("nothing to measure", file=sys.stderr)
        return 2
    print(versions())
    for client in clients:
        print(f"  {client:8}{CLIENTS[client][1]}")
    failed = False
    for name in rows:
        # One at a time takes longer, and needs fewer calls to show it.
        calls = max(1, options.calls // 2) if name == "one-by-one" else options.calls
        present = [client for client in ROWS[name].clients if client in clients]
        if present:
            measured = measure_in_alternation(name, present, calls, options.rounds)
            print_row(ROWS[name], calls, measured)
            failed = failed or len(measured) < len(present)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
