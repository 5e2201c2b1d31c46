"""No call may come to cost much more than it was recorded to. Nothing is timed: see budget.py."""

from __future__ import annotations

import pytest
import trio

from tests.budget import RECORD, ROOM, SLACK, WORKS, budget, measured


@pytest.mark.parametrize("name", WORKS)
def test_it_costs_no_more_than_its_budget(name: str) -> None:
    costs = trio.run(measured, name)
    recorded = budget()[name]
    above = {what: cost for what, cost in costs.items() if cost > recorded[what] * ROOM[what] + SLACK}
    assert not above, (
        f"{name} now costs {above}; the budget is {recorded}, with some room ({ROOM}).\n"
        "Look for what the change added on this path: a checkpoint, a task, a layer, a second decode, a copy.\n"
        f"If it is worth its cost, say so in the commit, and record it: python -m tests.budget --record\n"
        f"({RECORD.name})"
    )


def test_every_piece_of_work_has_a_budget() -> None:
    assert list(budget()) == list(WORKS)
