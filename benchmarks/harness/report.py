"""Writes docs/benchmarks.md and its charts from the results of the benchmarks."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import charts
from .rows import CONTENDERS, FIGURES, Benchmark, CaseResults, Ratio, ratios, spread

#: Every benchmark, in the order of the report.
NAMES = (
    *("stdio_at_once", "stdio_one_by_one", "calls_in_flight", "large_results", "http_at_once", "http_one_by_one"),
    *("opening", "many_servers", "listing", "exposing_stdio", "exposing_http", "import_time"),
)

#: The colour of each contender in all charts; two that are never in one chart may share a colour.
COLOURS = dict(
    zip(
        ("trio_mcp", "mcp-trio", "mcp-asyncio", "fastmcp", "loop", "floor", "blocking", "httpx"),
        charts.COLOURS,
        strict=True,
    )
)
COLOURS |= {
    "mcp": COLOURS["mcp-trio"],
    "parts": COLOURS["floor"],
    "lean": COLOURS["loop"],
    "hypercorn": COLOURS["blocking"],
    "node": COLOURS["httpx"],
}

INTRODUCTION = """# Benchmarks

<!-- benchmarks/run writes this page: change its texts in benchmarks/, not here. -->

This page compares trio_mcp with the official SDK (`mcp`), with FastMCP and with programs that do the least that
the same parts can do, on the same work in the same run. Every measurement runs in a process of its own; contenders
take turns, and **ratios are taken within a round**: a machine that slows down slows all of them. Figures are
medians, with the extremes in brackets. They compare contenders; they prove nothing about another machine.
[benchmarks/README.md](../benchmarks/README.md) says how each figure is measured.
"""

QUICK = "\n**This was a quick run, with few rounds and little work: do not quote these figures.**\n"


class BenchmarkResults:
    """One benchmark and its results."""

    def __init__(self, name: str, stored: Mapping[str, Any]) -> None:
        self.benchmark: Benchmark = importlib.import_module(name).BENCHMARK
        self.found = {key: CaseResults(**one) for key, one in stored["found"].items()}
        self.ratios = ratios(self.benchmark, self.found)
        self.stored = stored


def write(results: Path, docs: Path) -> Path:
    """Write the page and the charts from the JSON files in `results`; the page's path.

    Raises:
        SystemExit: nothing was measured, or the results come from different machines or versions.
    """
    measured = [
        BenchmarkResults(name, json.loads(path.read_text(encoding="utf-8")))
        for name in NAMES
        if (path := results / f"{name}.json").exists()
    ]
    if not measured:
        raise SystemExit("nothing has been measured: run benchmarks/run without --report")
    first = measured[0].stored
    for other in measured:
        for member in ("machine", "versions", "quick"):
            if other.stored[member] != first[member]:
                raise SystemExit(f"{other.benchmark.name} was measured with another {member!r}: run all again")
    pictures = docs / "benchmarks"
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("*.svg"):
        old.unlink()
    sections = [section(one, pictures) for one in measured]
    page = docs / "benchmarks.md"
    page.write_text("\n".join([*head(first, measured), *sections]), encoding="utf-8")
    return page


def head(first: Mapping[str, Any], measured: list[BenchmarkResults]) -> Iterator[str]:
    """The top of the page, above the benchmarks."""
    yield INTRODUCTION + (QUICK if first["quick"] else "")
    yield f"Machine: {first['machine']}.  "
    yield "Versions: " + ", ".join(f"{name} {version}" for name, version in first["versions"].items()) + ".\n"
    yield "| contender | what it is |\n|---|---|"
    named = dict.fromkeys(name for one in measured for here in one.found.values() for name in here.runs)
    yield from (f"| `{name}` | {CONTENDERS[name].description} |" for name in named)
    yield "\n## Goals\n"
    yield "| what | | median (extremes) | goal | |\n|---|---|---|---|---|"
    for one in measured:
        titles = {case.key: case.title for case in one.benchmark.cases} | {"": "growth"}
        for key, some in one.ratios.items():
            for ratio in some:
                if ratio.bound:
                    yield f"| {one.benchmark.title}: {titles[key]} {ratio_row(ratio)}"
    yield ""


def section(one: BenchmarkResults, pictures: Path) -> str:
    """One benchmark: its text, its charts, its tables."""
    benchmark = one.benchmark
    parts = [f"## {benchmark.title}\n", f"{benchmark.text}\n"]
    for figure in benchmark.charts:
        if (drawn := chart(one, figure)) is not None:
            name = f"{benchmark.name}_{figure.replace('-', '_')}.svg"
            (pictures / name).write_text(drawn, encoding="utf-8")
            parts.append(f"![{benchmark.title}: {FIGURES[figure].heading}](benchmarks/{name})\n")
    for case in benchmark.cases:
        if case.key not in one.found:
            continue
        here = one.found[case.key]
        parts.append(f"**{case.title}**\n")
        parts.append("| | " + " | ".join(FIGURES[name].heading for name in case.figures) + " |")
        parts.append("|---|" + "---|" * len(case.figures))
        for contender in case.contenders:
            columns = [(here.values(contender, name), FIGURES[name].form) for name in case.figures]
            if all(values for values, _ in columns):
                parts.append(f"| `{contender}` | " + " | ".join(spread(*column) for column in columns) + " |")
        parts.append("")
        # The output of a failed program may have paths in it, and is not shown then.
        reasons = {name: "it failed" if "/" in reason else reason for name, reason in here.left_out.items()}
        parts += [f"Left out: `{name}`: {reason}\n" for name, reason in reasons.items()]
        parts += ratio_table(one.ratios[case.key])
    if one.ratios[""]:
        parts += ["**Growth**\n", *ratio_table(one.ratios[""])]
    return "\n".join(parts)


def ratio_table(some: list[Ratio]) -> list[str]:
    """The ratios of one case."""
    if not some:
        return []
    return ["| ratio | median (extremes) | goal | |\n|---|---|---|---|", *map(ratio_row, some), ""]


def ratio_row(ratio: Ratio) -> str:
    """One ratio, and whether its goal holds."""
    verdict = {None: "", True: "holds", False: "**missed**"}[ratio.holds]
    return f"| {ratio.label} | {spread(ratio.values, '.2f')} | {ratio.bound} | {verdict} |"


def chart(one: BenchmarkResults, figure: str) -> str | None:
    """One figure of all cases: curves if the benchmark has an axis, else bars. None when nothing was measured."""
    benchmark, medians = one.benchmark, dict[str, dict[str, float]]()
    for case in benchmark.cases:
        if case.key in one.found:
            here = one.found[case.key]
            values = {name: sorted(here.values(name, figure)) for name in case.contenders}
            medians[case.key] = {name: some[len(some) // 2] for name, some in values.items() if some}
    if not any(medians.values()):
        return None
    heading = FIGURES[figure].heading
    if not benchmark.axis:
        groups = {case.title: medians[case.key] for case in benchmark.cases if case.key in medians}
        return charts.bars(f"{benchmark.title}: {heading}", groups, FIGURES[figure].form, COLOURS)
    lines: dict[str, list[tuple[float, float]]] = {}
    for case in benchmark.cases:
        for name, value in medians.get(case.key, {}).items():
            if case.x is not None and value > 0:
                lines.setdefault(name, []).append((case.x, value))
    return charts.curves(f"{benchmark.title}: {heading}", (benchmark.axis, heading), lines, COLOURS)
