"""The benchmarks run, in little and for trio_mcp alone, and their sums are right. Nothing here is about speed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
PROGRAMS = {"measure", "driving", "importing", "http_calls", "stdio_calls"}
FILES = sorted(path.stem for path in BENCHMARKS.glob("*.py") if path.stem not in PROGRAMS)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module as the benchmarks do; nothing of it stays."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        del sys.modules[name]


def measured(program: str, contender: str, work: dict[str, Any]) -> dict[str, float]:
    """What a program of the benchmarks measures."""
    command = [sys.executable, str(BENCHMARKS / f"{program}.py"), contender, json.dumps(work)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "units"),
    [
        ({"do": "calls", "in_flight": 10, "calls": 20}, 20),
        ({"do": "calls", "in_flight": 10, "calls": 20, "http": "json"}, 20),
        ({"do": "calls", "in_flight": 10, "calls": 20, "http": "sse"}, 20),
        ({"do": "large", "size": 100_000, "calls": 2}, 2),
        ({"do": "listing", "tools": 25, "page": 10, "times": 2}, 2),
        ({"do": "opening", "times": 2, "warm_up": 1}, 2),
        ({"do": "servers", "count": 2}, 2),
    ],
    ids=lambda value: f"{value['do']} {value.get('http', '')}".strip() if isinstance(value, dict) else "",
)
def test_each_kind_of_work_is_measured(work: dict[str, Any], units: int) -> None:
    found = measured("measure", "trio_mcp", work)
    assert found["units"] >= units
    assert found["seconds"] > 0
    assert found["cpu"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("contender", ["trio_mcp", "blocking"])
def test_a_server_is_driven(contender: str) -> None:
    assert measured("driving", contender, {"in_flight": 10, "calls": 50})["units"] >= 50


def test_an_import_is_measured() -> None:
    assert measured("importing", "trio_mcp", {"names": True})["modules"] > 0


def test_the_report_knows_every_benchmark(harness: Any) -> None:
    names = harness("harness.report").NAMES
    assert sorted(names) == FILES
    assert [harness(name).BENCHMARK.name for name in names] == list(names)


def test_ratios_are_taken_within_a_round_and_judged_by_their_median(harness: Any) -> None:
    rows = harness("harness.rows")
    goals = (rows.Goal("loop", "rate", ">= 2"), rows.Goal("", "held", "<= 50"))
    case = rows.Case("one", "one", ("trio_mcp", "loop"), {}, goals=goals)
    benchmark = rows.Benchmark("b", "b", "", (case,))
    mine = [{"units": 1, "seconds": seconds, "cpu": 1, "held": 51.0} for seconds in (1, 10, 2)]
    theirs = [{"units": 1, "seconds": seconds, "cpu": 1} for seconds in (3, 30, 1)]
    found = {"one": rows.CaseResults({"trio_mcp": mine, "loop": [*theirs[:2], None]})}
    first, second = rows.ratios(benchmark, found)["one"]
    assert (first.values, first.holds) == ([3, 3], True)
    assert (second.values, second.holds) == ([51, 51, 51], False)


def test_charts_are_well_formed(harness: Any) -> None:
    charts = harness("harness.charts")
    colours = {"a": "#000000", "<b>": "#ffffff"}
    bars = charts.bars("A & B", {"x": {"a": 1.0, "<b>": 3.0}}, ",.1f", colours)
    curves = charts.curves("A & B", ("n", "µs"), {"a": [(1, 5), (10_000, 50)], "<b>": [(1, 7)]}, colours)
    for drawn in (bars, curves):
        root = ElementTree.fromstring(drawn)
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert "A & B" in texts
        assert "<b>" in texts
