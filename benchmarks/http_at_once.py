"""Small calls over HTTP, 100 at once, answered as JSON and as events."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal

CONTENDERS = (OURS, *PEERS, "httpx", "loop")
#: Measured in the first round only: the pool of httpx looks at every connection for each request.
SLOW = ("httpx",)
RATIOS_WITHOUT_GOAL = (
    *(Goal("mcp-asyncio", "rate"), Goal("fastmcp", "rate"), Goal("httpx", "rate")),
    *(Goal("loop", "rate"), Goal("loop", "cpu")),
)


def case(key: str, title: str, http: str, server: str, bound: str = "", once: tuple[str, ...] = ()) -> Case:
    """The same calls, to one of the servers."""
    work = {"do": "calls", "in_flight": 100, "calls": 500, "http": http, "server": server}
    goals = (Goal("mcp-trio", "rate", bound), *RATIOS_WITHOUT_GOAL)
    return Case(
        key,
        title,
        CONTENDERS,
        work,
        goals=goals,
        once=once,
        long=once if len(once) > len(SLOW) else (),
        quick={"calls": 200},
    )


BENCHMARK = Benchmark(
    name="http_at_once",
    title="Small calls over HTTP, 100 at once",
    text="Each of 100 tasks calls `echo` over and over; a call is a POST, in the era that both sides agree on.",
    cases=(
        case("json", "JSON, Node server", "json", "node", ">= 5", SLOW),
        case("json-python", "JSON, Python server", "json", "python", ">= 5", (*PEERS, *SLOW)),
        case("sse", "Server-sent events, Node server", "sse", "node", once=(*PEERS, *SLOW)),
    ),
    charts=("rate", "cpu"),
    rounds=3,
)

if __name__ == "__main__":
    main(BENCHMARK)
