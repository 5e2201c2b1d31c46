"""The cost of a server over stdio for the client, with 1 to 100 servers opened at once."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal, Growth


def case(count: int, *contenders: str, goals: tuple[Goal, ...] = (), long: tuple[str, ...] = ()) -> Case:
    """A case with `count` servers."""
    key, work = str(count), {"do": "servers", "count": count}
    return Case(key, f"{count} at once", contenders, work, ("wall", "cpu-ms", "held"), goals, x=count, long=long)


BENCHMARK = Benchmark(
    name="many_servers",
    title="Servers opened at once, 1 to 100",
    text=(
        "Each server is opened, listed and called once; all are closed when the last one has answered. The time "
        "is that of starting Python; the client's CPU time and memory do not include those of its servers."
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
