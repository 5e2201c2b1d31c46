"""The cost of a call over stdio for the client, with 1 to 10,000 calls in flight."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal, Growth


def case(in_flight: int, calls: int) -> Case:
    """A case with `in_flight` tasks, each of which always has one call in flight."""
    work = {"do": "calls", "in_flight": in_flight, "calls": calls}
    # At 10,000 the peers need some ten seconds each, and show nothing that 1,000 calls do not show.
    peers = PEERS if in_flight <= 1000 else ()
    goals = (Goal("loop", "cpu"), Goal("floor", "cpu"))
    contenders = (OURS, *peers, "loop", "floor")
    return Case(
        str(in_flight),
        f"{in_flight:,} in flight",
        contenders,
        work,
        goals=goals,
        x=in_flight,
        once=peers,
        long=peers if in_flight != 100 else (),
        quick={"calls": calls // 2},
    )


BENCHMARK = Benchmark(
    name="calls_in_flight",
    title="Calls in flight, 1 to 10,000",
    text=(
        "Each call in flight has a task of its own, on one connection over stdio. The clock starts when all tasks "
        "wait at a gate, so that starting them is not measured. Peers are measured once, and up to 1,000."
    ),
    cases=(case(1, 1000), case(10, 2000), case(100, 2000), case(1000, 4000), case(10_000, 30_000)),
    growth=(Growth("cpu", "100", "10000", "<= 1.3"),),
    axis="calls in flight",
    charts=("cpu", "rate"),
    rounds=3,
)

if __name__ == "__main__":
    main(BENCHMARK)
