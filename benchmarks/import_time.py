"""The time that an import takes in a fresh interpreter."""

from __future__ import annotations

from harness.rounds import main
from harness.rows import OURS, Benchmark, Case, Goal

FIGURES = ("wall", "cpu-ms", "modules")
CONTENDERS = (OURS, "mcp", "fastmcp", "parts")


def goals(bound: str) -> tuple[Goal, ...]:
    """The ratios to the other contenders; only the first one has a goal."""
    return (Goal("mcp", "wall", bound), Goal("mcp", "cpu-ms"), Goal("fastmcp", "wall"), Goal("parts", "wall"))


BENCHMARK = Benchmark(
    name="import_time",
    title="Import",
    text=(
        "In a fresh interpreter with warm caches. trio_mcp loads a name when it is first used: the second case "
        "also imports the names that a client over stdio needs."
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
            "with the names that a client needs",
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
