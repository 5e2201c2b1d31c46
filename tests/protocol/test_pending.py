"""The table of pending requests: each id is given out once and resolved once, whatever a peer sends."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.depth import examples
from trio_mcp.protocol.pending import PendingTable, as_number


def test_ids_only_grow() -> None:
    """Legacy: ids are never reused within the session. Modern: unique among those in flight."""
    table: PendingTable[str] = PendingTable()
    first, second = table.add("a"), table.add("b")
    table.resolve(first)
    table.forget(second)
    assert table.add("c") > second > first > 0


def test_a_waiter_is_handed_over_once() -> None:
    """Fault 17: late, repeated and unknown answers are counted and dropped."""
    table: PendingTable[str] = PendingTable()
    id_ = table.add("a")
    assert table.is_waiting(id_)
    assert table.resolve(id_) == "a"
    assert not table.is_waiting(id_)
    assert table.resolve(id_) is None
    assert table.resolve(id_ + 1) is None
    assert table.late == 2


def test_an_answer_to_a_forgotten_request_is_late() -> None:
    table: PendingTable[str] = PendingTable()
    id_ = table.add("a")
    assert table.forget(id_)
    assert not table.forget(id_)
    assert table.late == 0
    assert table.resolve(id_) is None
    assert table.late == 1


@pytest.mark.parametrize("of", [str, float])
def test_an_id_may_come_back_as_another_type(of: Any) -> None:
    table: PendingTable[str] = PendingTable()
    table.add("a")
    id_ = table.add("b")
    assert table.is_waiting(of(id_))
    assert table.resolve(of(id_)) == "b"
    assert len(table) == 1


@pytest.mark.table(
    "id_",
    [
        None,
        "",
        "x",
        "1x",
        " 1",
        "-1",
        "1.0",
        "\u0661",
        "\u00b9",
        "9" * 5000,
        0,
        -1,
        1.5,
        math.nan,
        math.inf,
        10**400,
    ],
    ids=lambda id_: ascii(id_)[:20],
)
def test_an_id_that_was_never_given_out_resolves_nobody(id_: Any) -> None:
    table: PendingTable[str] = PendingTable()
    table.add("a")
    assert not table.is_waiting(id_)
    assert table.resolve(id_) is None
    assert (len(table), table.late) == (1, 1)


@pytest.mark.table(
    ("id_", "number"),
    [(7, 7), ("7", 7), (7.0, 7), (0, 0), ("0", 0), ("seven", None), (None, None), ([7], None), (b"7", None)],
    ids=repr,
)
def test_an_id_is_read_as_the_number_it_was(id_: object, number: object) -> None:
    assert as_number(id_) == number


def test_a_boolean_is_no_id() -> None:
    """True equals 1, and hashes like it."""
    assert as_number(True) is None
    assert as_number(False) is None


def test_an_error_without_an_id_belongs_to_the_only_request() -> None:
    table: PendingTable[str] = PendingTable()
    assert table.resolve_only() is None
    table.add("a")
    assert table.resolve_only() == "a"
    assert len(table) == 0
    table.add("b")
    table.add("c")
    assert table.resolve_only() is None
    assert (len(table), table.late) == (2, 2)


def test_all_who_wait_are_handed_over_at_the_end_in_order() -> None:
    table: PendingTable[str] = PendingTable()
    ids = [table.add(name) for name in "abc"]
    table.resolve(ids[1])
    assert table.take_all() == ["a", "c"]
    assert table.take_all() == []
    assert table.resolve(ids[0]) is None


def test_the_repr_tells_the_state() -> None:
    table: PendingTable[str] = PendingTable()
    table.add("a")
    table.resolve(5)
    assert repr(table) == "<PendingTable: 1 waiting, 1 so far, 1 late>"


class AnyOrder(RuleBasedStateMachine):
    """Beside a plain dict as the model."""

    def __init__(self) -> None:
        super().__init__()
        self.table: PendingTable[object] = PendingTable()
        self.model: dict[int, object] = {}
        self.given: list[int] = []
        self.late = 0

    def expect(self, came: object, waiter: object) -> None:
        assert came is waiter
        self.late += waiter is None

    @rule()
    def add(self) -> None:
        waiter = object()
        id_ = self.table.add(waiter)
        assert type(id_) is int
        assert all(id_ > before for before in self.given)
        self.given.append(id_)
        self.model[id_] = waiter

    @rule(number=st.integers(-1, 30), of=st.sampled_from([int, str, float]))
    def resolve(self, number: int, of: Any) -> None:
        assert self.table.is_waiting(of(number)) == (number in self.model)
        self.expect(self.table.resolve(of(number)), self.model.pop(number, None))

    @rule(id_=st.text() | st.floats() | st.integers(min_value=1000) | st.none())
    def resolve_a_stranger(self, id_: Any) -> None:
        number = as_number(id_)
        waiter = self.model.pop(int(number), None) if number is not None and number in self.given else None
        self.expect(self.table.resolve(id_), waiter)

    @rule()
    def resolve_only(self) -> None:
        waiter = self.model.popitem()[1] if len(self.model) == 1 else None
        self.expect(self.table.resolve_only(), waiter)

    @rule(number=st.integers(-1, 30))
    def forget(self, number: int) -> None:
        assert self.table.forget(number) == (self.model.pop(number, None) is not None)

    @rule()
    def take_all(self) -> None:
        assert self.table.take_all() == list(self.model.values())
        self.model.clear()

    @invariant()
    def the_counts_agree(self) -> None:
        assert len(self.table) == len(self.model)
        assert self.table.late == self.late


AnyOrder.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=30)
TestAnyOrderOfEvents = AnyOrder.TestCase


def test_an_error_without_an_id_is_not_for_a_waiter_that_does_not_count() -> None:
    """A subscription that stays open beside the one call in flight must not keep that call waiting."""
    table: PendingTable[str] = PendingTable()
    table.add("listens")
    table.add("calls")
    assert table.resolve_only(lambda waiter: waiter != "listens") == "calls"
    assert table.resolve_only(lambda waiter: waiter != "listens") is None
    assert len(table) == 1
