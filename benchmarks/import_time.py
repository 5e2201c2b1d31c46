"""The time that an import takes in a fresh interpreter."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, Benchmark, Case, Goal

FIGURES = ("wall", "cpu-ms", "modules")
CONTENDERS = (OURS, "mcp", "fastmcp", "parts")


def goals(bound: str) -> tuple[Goal, ...]:
    """The ratios to each, one of them with a goal."""
    return (Goal("mcp", "wall", bound), Goal("mcp", "cpu-ms"), Goal("fastmcp", "wall"), Goal("parts", "wall"))


BENCHMARK = Benchmark(
    name="import_time",
    title="Import",
    text=(
        "In a fresh interpreter with warm caches. trio_mcp loads its names when they are first used: the second "
        "case is what a client over stdio needs."
    ),
    cases=(
        Case(
            "import",
            "the import alone",
            CONTENDERS,
            {"names": False},
            FIGURES,
            goals("<= 0.25"),
            program="importing.py",
        ),
        Case(
            "client",
            "and what a client needs",
            CONTENDERS,
            {"names": True},
            FIGURES,
            goals("<= 0.25"),
            program="importing.py",
        ),
    ),
    charts=("wall",),
    rounds=4,
)

if __name__ == "__main__":
    main(BENCHMARK)
