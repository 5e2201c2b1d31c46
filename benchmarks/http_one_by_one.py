"""Small calls over HTTP, one at a time, answered as JSON and as events."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal

CONTENDERS = (OURS, *PEERS, "httpx", "loop")
RATIOS_WITHOUT_GOAL = (
    *(Goal("mcp-asyncio", "rate"), Goal("fastmcp", "rate"), Goal("httpx", "rate")),
    *(Goal("loop", "rate"), Goal("loop", "cpu")),
)


def case(key: str, title: str, http: str, server: str, bound: str = "") -> Case:
    """The same calls, to one of the servers, with one form of answers."""
    work = {"do": "calls", "in_flight": 1, "calls": 300, "http": http, "server": server}
    goals = (Goal("mcp-trio", "rate", bound), *RATIOS_WITHOUT_GOAL)
    once = () if bound else (*PEERS, "httpx")
    return Case(
        key,
        title,
        CONTENDERS,
        work,
        goals=goals,
        once=once,
        long=once,
        quick={"calls": 100},
    )


BENCHMARK = Benchmark(
    name="http_one_by_one",
    title="Small calls over HTTP, one at a time",
    text="One task calls `echo` over and over, on a connection that stays open.",
    cases=(
        case("json", "JSON, Node server", "json", "node", ">= 4"),
        case("json-python", "JSON, Python server", "json", "python", ">= 4"),
        case("sse", "Server-sent events, Node server", "sse", "node"),
    ),
    charts=("rate", "cpu"),
    rounds=3,
)

if __name__ == "__main__":
    main(BENCHMARK)
