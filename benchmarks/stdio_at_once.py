"""Small calls over stdio, 100 at once."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal

CONTENDERS = (OURS, *PEERS, "loop", "floor")
GOALS = (
    *(Goal("mcp-trio", "rate", ">= 8"), Goal("loop", "rate", ">= 0.85"), Goal("loop", "cpu", "<= 1.25")),
    *(Goal("mcp-asyncio", "rate"), Goal("fastmcp", "rate"), Goal("floor", "rate"), Goal("floor", "cpu")),
)
NO_GOALS = tuple(Goal(goal.peer, goal.figure) for goal in GOALS)
QUICK = {"calls": 1000}


def work(server: str) -> dict[str, object]:
    """The same calls, to one of the servers."""
    return {"do": "calls", "in_flight": 100, "calls": 2000, "server": server}


BENCHMARK = Benchmark(
    name="stdio_at_once",
    title="Small calls over stdio, 100 at once",
    text="Each of 100 tasks calls `echo` over and over on one connection. The goals are for the Python server.",
    cases=(
        Case("python", "Python server", CONTENDERS, work("python"), goals=GOALS, quick=QUICK),
        Case("node", "Node server", CONTENDERS, work("node"), goals=NO_GOALS, quick=QUICK, once=PEERS, long=PEERS),
    ),
    charts=("rate", "cpu"),
)

if __name__ == "__main__":
    main(BENCHMARK)
