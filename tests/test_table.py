"""A table runs every case, names those that fail, and leaves the other parameters to pytest."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.table import table


def test_every_case_runs_and_each_failure_names_its_case() -> None:
    seen = []

    @table(("a", "b"), [(1, 1), (1, 2), pytest.param(3, 4, id="the odd one")])
    def compare(a: int, b: int) -> None:
        seen.append((a, b))
        assert a == b

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed") as caught:
        compare()
    assert seen == [(1, 1), (1, 2), (3, 4)]
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in the case a=1, b=2"],
        ["in the case the odd one"],
    ]


def test_a_single_failure_is_raised_as_it_is() -> None:
    @table("value", [1, 0], ids=["one", "nothing"])
    def divide(value: int) -> None:
        assert 1 / value

    with pytest.raises(ZeroDivisionError) as caught:
        divide()
    assert caught.value.__notes__ == ["in the case nothing"]


def test_an_expected_error_that_does_not_come_is_a_failure_too() -> None:
    @table("value", [1, "x"])
    def refuse(value: object) -> None:
        with pytest.raises(TypeError):
            value + 1  # type: ignore[operator]

    with pytest.raises(pytest.fail.Exception) as caught:
        refuse()
    assert caught.value.__notes__ == ["in the case value=1"]


@pytest.mark.table("number", [1, 2], ids=lambda number: f"number {number}")
@pytest.mark.table("word", ["a", "b"])
@pytest.mark.parametrize("letter", ["x", "y"])
async def test_tables_stack_beside_fixtures_and_parameters_and_async_cases_are_awaited(
    tmp_path: Path, number: int, word: str, letter: str
) -> None:
    with (tmp_path / "seen").open("a") as file:
        file.write(f"{letter}{word}{number} ")
    if (number, word) == (2, "b"):
        assert (tmp_path / "seen").read_text() == f"{letter}a1 {letter}b1 {letter}a2 {letter}b2 "


def test_what_is_no_parameter_and_a_table_without_rows_are_refused() -> None:
    def test(a: int) -> None: ...

    with pytest.raises(AssertionError, match="does not take b"):
        table("b", [1])(test)
    with pytest.raises(AssertionError, match="empty"):
        table("a", [])
    assert list(inspect.signature(table("a", [1])(test)).parameters) == []
