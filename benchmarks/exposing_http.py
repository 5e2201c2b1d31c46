"""A server over HTTP with one tool, published by each library and called by one bare client."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, Benchmark, Case, Goal

BENCHMARK = Benchmark(
    name="exposing_http",
    title="Expose a tool over HTTP, 100 calls at once",
    text=(
        "The same function as over stdio, in the modern era: a bare client keeps 100 connections busy. Every "
        "library answers with JSON and without sessions; the peers run on uvicorn, trio_mcp on hypercorn. CPU is "
        "the server's."
    ),
    cases=(
        Case(
            "100",
            "100 at once",
            (OURS, "mcp", "fastmcp", "hypercorn", "lean", "node"),
            {"in_flight": 100, "calls": 1000, "http": True},
            goals=(
                *(Goal("mcp", "rate"), Goal("mcp", "cpu"), Goal("fastmcp", "rate")),
                *(Goal("hypercorn", "rate"), Goal("hypercorn", "cpu"), Goal("lean", "rate")),
            ),
            quick={"calls": 400},
            program="driving.py",
        ),
    ),
    charts=("rate", "cpu"),
    rounds=3,
)

if __name__ == "__main__":
    main(BENCHMARK)
