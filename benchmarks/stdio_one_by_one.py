"""Small calls over stdio, one at a time."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal

CONTENDERS = (OURS, *PEERS, "loop", "floor")

BENCHMARK = Benchmark(
    name="stdio_one_by_one",
    title="Small calls over stdio, one at a time",
    text="One task calls `echo` over and over: this measures one round trip.",
    cases=(
        Case(
            "python",
            "Python server",
            CONTENDERS,
            {"do": "calls", "in_flight": 1, "calls": 1000},
            quick={"calls": 500},
            goals=(
                *(Goal("mcp-trio", "rate", ">= 3"), Goal("loop", "rate", ">= 0.95")),
                *(
                    Goal("mcp-asyncio", "rate"),
                    Goal("fastmcp", "rate"),
                    Goal("floor", "rate"),
                    Goal("loop", "cpu"),
                ),
            ),
        ),
    ),
    charts=("rate", "cpu"),
    rounds=4,
)

if __name__ == "__main__":
    main(BENCHMARK)
