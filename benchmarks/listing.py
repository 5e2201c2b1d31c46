"""Listing 10,000 tools, in pages of 1,000."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal

BENCHMARK = Benchmark(
    name="listing",
    title="List 10,000 tools",
    text=(
        "Ten pages of 1,000 over stdio. The blocking loop decodes each entry into a dict and nothing more; "
        "trio_mcp also checks each entry, names it for models and keeps its schema as it was sent."
    ),
    cases=(
        Case(
            "10000",
            "10,000 tools",
            (OURS, *PEERS, "blocking"),
            {"do": "listing", "tools": 10_000, "page": 1000, "times": 3},
            ("wall", "cpu-ms"),
            (Goal("mcp-trio", "wall"), Goal("mcp-trio", "cpu-ms"), Goal("blocking", "cpu-ms")),
            quick={"times": 1},
        ),
    ),
    charts=("wall",),
    rounds=3,
)

if __name__ == "__main__":
    main(BENCHMARK)
