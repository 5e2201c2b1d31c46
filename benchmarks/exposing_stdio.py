"""A server over stdio with one tool, published by each library and called by one bare client."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, Benchmark, Case, Goal

BENCHMARK = Benchmark(
    name="exposing_stdio",
    title="Expose a tool over stdio, 100 calls at once",
    text=(
        "Each library publishes one async function that returns its text; a bare client keeps 100 calls in "
        "flight. CPU is the server's. The blocking loop is the echo server of the other benchmarks."
    ),
    cases=(
        Case(
            "100",
            "100 at once",
            (OURS, "mcp", "fastmcp", "blocking"),
            {"in_flight": 100, "calls": 1000},
            goals=(
                *(Goal("mcp", "rate", ">= 10"), Goal("fastmcp", "rate"), Goal("mcp", "cpu")),
                *(Goal("blocking", "rate"), Goal("blocking", "cpu")),
            ),
            quick={"calls": 400},
            program="driving.py",
        ),
    ),
    charts=("rate", "cpu"),
    rounds=4,
)

if __name__ == "__main__":
    main(BENCHMARK)
