"""Texts from 1 KiB to 64 MiB, sent and echoed over stdio."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, PEERS, Benchmark, Case, Goal, Growth

KIB, MIB = 2**10, 2**20
#: The peers that are measured with large texts. Their time grows with the square of the size: other peers, and
#: larger texts, would take minutes.
PEERS_BY_SIZE = {MIB: PEERS, 8 * MIB: ("mcp-trio", "mcp-asyncio"), 32 * MIB: ("mcp-trio",)}


def title(size: int) -> str:
    """The size, as a heading shows it."""
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def case(key: str, size: int, calls: int, goals: tuple[Goal, ...] = ()) -> Case:
    """A case with `calls` texts of one size."""
    peers = PEERS if size < MIB else PEERS_BY_SIZE.get(size, ())
    work = {"do": "large", "size": size, "calls": calls}
    figures = ("bandwidth", "wall", "cpu-mb")
    contenders = (OURS, *peers, "floor", "blocking")
    long = peers if size != MIB else ()
    quick = {"calls": max(1, calls // 4)}
    return Case(key, title(size), contenders, work, figures, goals, size, once=peers, long=long, quick=quick)


BENCHMARK = Benchmark(
    name="large_results",
    title="Results of 1 KiB to 64 MiB over stdio",
    text=(
        "One text at a time is sent and echoed. The time of peers that join a line from small chunks grows with "
        "the square of the size: they are left out where they would take minutes."
    ),
    cases=(
        case("1-kib", KIB, 400),
        case("32-kib", 32 * KIB, 200),
        case("1-mib", MIB, 16, (Goal("mcp-trio", "bandwidth"), Goal("blocking", "wall"))),
        case("8-mib", 8 * MIB, 4, (Goal("mcp-trio", "bandwidth"), Goal("blocking", "wall"))),
        case(
            "32-mib",
            32 * MIB,
            1,
            (
                *(Goal("mcp-trio", "bandwidth", ">= 15"), Goal("blocking", "wall", "<= 1.6")),
                *(Goal("floor", "wall"), Goal("blocking", "cpu-mb")),
            ),
        ),
        case("64-mib", 64 * MIB, 1, (Goal("blocking", "wall"),)),
    ),
    growth=(Growth("bandwidth", "1-mib", "64-mib", ">= 0.77"),),
    axis="bytes",
    charts=("bandwidth",),
    rounds=3,
)

if __name__ == "__main__":
    main(BENCHMARK)
