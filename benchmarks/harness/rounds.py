"""Runs a benchmark in rounds; prints the figures and, with --json, writes them to a file.

Each round measures every contender once, in a process of its own, and begins with another contender. Ratios are
taken within a round: a machine that slows down slows all of them. This module needs only the standard library, so
that it can say which package is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .environment import describe, versions
from .rows import CONTENDERS, FIGURES, Benchmark, Case, CaseResults, Ratio, ratios, spread

PROGRAMS = Path(__file__).parents[1]
#: Far more than the slowest known measurement takes (the SDK with 32 MiB: 15 s): a contender beyond it hangs.
PATIENCE = 180.0


class LeftOutError(Exception):
    """A contender failed, and is not measured in the rounds that follow."""


def measure(case: Case, contender: str, quick: bool) -> dict[str, float]:
    """Measure one contender, in a process of its own."""
    work = json.dumps({**case.work, **(case.quick if quick else {})})
    command = [sys.executable, str(PROGRAMS / case.program), contender, work]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise LeftOutError(f"did not finish within {PATIENCE:.0f} s") from error
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise LeftOutError(last or f"status {done.returncode}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def missing(contender: str) -> str | None:
    """Why a contender cannot run in this environment, or None."""
    for module in dict.fromkeys((CONTENDERS[contender].needs, "trio", "msgspec")):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return None


def run_rounds(
    cases: list[Case], contenders: set[str], rounds: int, quick: bool
) -> tuple[dict[str, CaseResults], bool]:
    """Measure every contender of every case once in each round; one that fails is left out from then on."""
    found = {case.key: CaseResults() for case in cases}
    failed = False
    for case in cases:
        for contender in case.contenders:
            if contender in contenders and (reason := missing(contender)) is not None:
                found[case.key].left_out[contender] = reason
    for turn in range(rounds):
        for case in cases:
            here = found[case.key]
            excluded = {*here.left_out, *(case.long if quick else ())}
            present = [name for name in case.contenders if name in contenders and name not in excluded]
            first = turn % len(present) if present else 0
            for contender in present[first:] + present[:first]:
                runs = here.runs.setdefault(contender, [])
                if turn and contender in case.once:
                    runs.append(None)
                    continue
                show(f"round {turn + 1} of {rounds}: {case.key}, {contender}")
                try:
                    runs.append(measure(case, contender, quick))
                except LeftOutError as error:
                    here.left_out[contender] = str(error)
                    failed = True
    show("")
    return found, failed


def show(text: str) -> None:
    """Show the present step, if stderr is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def print_found(benchmark: Benchmark, found: Mapping[str, CaseResults]) -> None:
    """The figures of each contender, then the ratios with the goals beside them."""
    judged = ratios(benchmark, found)
    for case in benchmark.cases:
        if case.key not in found:
            continue
        here = found[case.key]
        print(f"\n{case.title}")
        print("  " + f"{'':14}" + "".join(f"{FIGURES[name].heading:>32}" for name in case.figures))
        for contender in case.contenders:
            columns = [(here.values(contender, name), FIGURES[name].form) for name in case.figures]
            if all(values for values, _ in columns):
                print(f"  {contender:14}" + "".join(f"{spread(values, form):>32}" for values, form in columns))
        for contender, reason in here.left_out.items():
            print(f"  left out: {contender}: {reason}")
        print_ratios(judged[case.key])
    if judged[""]:
        print("\nGrowth")
        print_ratios(judged[""])


def print_ratios(judged: list[Ratio]) -> None:
    """A line for each ratio."""
    for ratio in judged:
        verdict = {None: "", True: "holds", False: "MISSED"}[ratio.holds]
        print(f"  {ratio.label:48}{spread(ratio.values, '.2f'):>24}  {ratio.bound:8} {verdict}".rstrip())


def as_json(benchmark: Benchmark, found: Mapping[str, CaseResults], rounds: int, quick: bool) -> dict[str, Any]:
    """The results, in the form that the report reads."""
    judged = ratios(benchmark, found)
    return {
        "name": benchmark.name,
        "rounds": rounds,
        "quick": quick,
        "machine": describe(),
        "versions": versions(),
        "found": {key: asdict(one) for key, one in found.items()},
        "missed": [ratio.label for some in judged.values() for ratio in some if ratio.holds is False],
    }


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def arguments(benchmark: Benchmark, argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    cases = [case.key for case in benchmark.cases]
    contenders = list(dict.fromkeys(name for case in benchmark.cases for name in case.contenders))
    parser = argparse.ArgumentParser(prog=f"{benchmark.name}.py", description=benchmark.title)
    parser.add_argument("--rounds", type=positive, help=f"measurements of each contender ({benchmark.rounds})")
    parser.add_argument(
        "--quick", action="store_true", help="few rounds with little work: for a first look, not to be quoted"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE too")
    parser.add_argument(
        "--only",
        default="",
        metavar="NAMES",
        help="only these cases and contenders, with commas between: " + ", ".join([*cases, *contenders]),
    )
    options = parser.parse_args(argv)
    names = [name for name in options.only.split(",") if name]
    for name in names:
        if name not in cases and name not in contenders:
            parser.error(f"--only: {name} is neither a case nor a contender")
    options.cases = [name for name in cases if name in names] or cases
    options.contenders = [name for name in contenders if name in names] or contenders
    return options


def main(benchmark: Benchmark) -> None:
    """Measure and print; the exit status is 1 when a contender failed, 2 for a wrong command line."""
    options = arguments(benchmark, sys.argv[1:])
    rounds = options.rounds or (benchmark.quick_rounds if options.quick else benchmark.rounds)
    print(f"{benchmark.title}\n{benchmark.text}\n")
    print(f"{describe()}\n{', '.join(f'{name} {version}' for name, version in versions().items())}")
    for contender in options.contenders:
        print(f"  {contender:14}{CONTENDERS[contender].description}")
    cases = [case for case in benchmark.cases if case.key in options.cases]
    try:
        found, failed = run_rounds(cases, set(options.contenders), rounds, options.quick)
    except KeyboardInterrupt:
        sys.exit(130)
    print_found(benchmark, found)
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(benchmark, found, rounds, options.quick)), encoding="utf-8")
    sys.exit(1 if failed else 0)
