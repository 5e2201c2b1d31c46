"""Opening a stdio server, listing its tools and closing it, 200 times."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal

BENCHMARK = Benchmark(
    name="opening",
    title="Open, list and close a server, 200 times",
    text=(
        "One after the other, 50 in each round. The blocking loop does the least: start, two requests, wait for "
        "the exit. The memory left behind is the growth of the client for each opening, after ten that are not "
        "counted; the benchmark of many servers shows how much memory an open one takes."
    ),
    cases=(
        Case(
            "python",
            "Python server",
            (OURS, *PEERS, "blocking"),
            {"do": "opening", "times": 50, "warm_up": 10},
            ("wall", "cpu-ms", "kept"),
            goals=(
                *(Goal("mcp-trio", "cpu-ms", "<= 0.5"), Goal("mcp-trio", "wall", "<= 1")),
                *(Goal("blocking", "cpu-ms"), Goal("blocking", "wall")),
            ),
            quick={"times": 10, "warm_up": 3},
        ),
    ),
    charts=("wall", "cpu-ms"),
    rounds=4,
)

if __name__ == "__main__":
    main(BENCHMARK)
