"""Servers over stdio, 1 to 100 opened at once: what each costs the client."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal, Growth


def case(count: int, *contenders: str, goals: tuple[Goal, ...] = (), long: tuple[str, ...] = ()) -> Case:
    """So many servers."""
    key, work = str(count), {"do": "servers", "count": count}
    return Case(key, f"{count} at once", contenders, work, ("wall", "cpu-ms", "held"), goals, x=count, long=long)


BENCHMARK = Benchmark(
    name="many_servers",
    title="Servers opened at once, 1 to 100",
    text=(
        "Each server is opened and listed, called once when it is up, and all are closed when the last has "
        "answered. The time is that of starting Python; the client's CPU time and memory are without its servers'."
    ),
    cases=(
        case(1, OURS, *PEERS, "blocking", long=PEERS),
        case(10, OURS, *PEERS, "blocking", long=PEERS),
        case(30, OURS, *PEERS, "blocking", goals=(Goal("", "held", "<= 50"), Goal("mcp-trio", "held"))),
        case(
            100,
            OURS,
            "mcp-trio",
            "blocking",
            goals=(Goal("", "held", "<= 50"), Goal("mcp-trio", "cpu-ms")),
            long=PEERS,
        ),
    ),
    growth=(Growth("cpu-ms", "10", "100", "<= 1.3"),),
    axis="servers",
    charts=("cpu-ms", "held"),
    rounds=3,
)

if __name__ == "__main__":
    main(BENCHMARK)
