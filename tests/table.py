"""A table of cases as one test, for cases that are a moment of pure code each: `table` in place of `parametrize`.

    @pytest.mark.table(("text", "number"), [("1", 1), ("two", None)])
    def test_digits_are_read(text: str, number: int | None) -> None:
        assert read(text) == number

Every case runs, also after one that failed, and each failure names its case. The cases share the test's fixtures:
a test with fixtures that it changes, with processes or with sockets wants `parametrize`. conftest.py calls
`tabled`.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import pytest

R = TypeVar("R")

#: What `pytest.param` makes.
_Param = type(pytest.param())

_spell = reprlib.Repr()
_spell.maxstring = _spell.maxother = 80


class Cases:
    """The rows of one table, each with a name; the arguments are those of `parametrize`."""

    def __init__(
        self, names: str | Sequence[str], rows: Iterable[Any], ids: Iterable[Any] | Callable[[Any], object] | None
    ) -> None:
        self.names = tuple(names.replace(",", " ").split()) if isinstance(names, str) else tuple(names)
        rows = list(rows)
        assert rows, "an empty table tests nothing"
        self._spell = ids if callable(ids) else None
        given = [None] * len(rows) if ids is None or callable(ids) else list(ids)
        assert len(given) == len(rows), f"{len(rows)} rows have {len(given)} ids"
        self._rows = [self._named(row, name) for row, name in zip(rows, given, strict=True)]

    def _named(self, row: Any, name: object) -> tuple[str, dict[str, Any]]:
        if isinstance(row, _Param):
            assert not row.marks, "a case with marks of its own wants parametrize"
            name, values = name or row.id, row.values
        else:
            values = row if len(self.names) > 1 else (row,)
        found = dict(zip(self.names, values, strict=True))
        return str(name or ", ".join(f"{key}={self._word(value)}" for key, value in found.items())), found

    def _word(self, value: object) -> object:
        return (self._spell and self._spell(value)) or _spell.repr(value)

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return iter(self._rows)


class Verdict:
    """Collects what the cases raised, and raises it when all have run."""

    def __init__(self) -> None:
        self._cases = 0
        self._failed: list[BaseException] = []

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Run one case; its failure gets the name as a note."""
        self._cases += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"in the case {name}")
            self._failed.append(error)

    def give(self) -> None:
        """Raise the one failure, or a group of several."""
        if len(self._failed) == 1:
            raise self._failed[0]
        if self._failed:
            raise BaseExceptionGroup(f"{len(self._failed)} of {self._cases} cases failed", self._failed)


def table(
    names: str | Sequence[str],
    rows: Iterable[Any],
    *,
    ids: Iterable[Any] | Callable[[Any], object] | None = None,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Call the test once for each row, all within one item of pytest."""
    cases = Cases(names, rows, ids)

    def decorate(test: Any) -> Any:
        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in cases.names]
        assert len(left) + len(cases.names) == len(signature.parameters), f"{test.__name__} does not take {names}"

        @wraps(test)
        def all_cases(**fixtures: Any) -> None:
            verdict = Verdict()
            for name, row in cases:
                with verdict.case(name):
                    test(**row, **fixtures)
            verdict.give()

        @wraps(test)
        async def all_cases_async(**fixtures: Any) -> None:
            verdict = Verdict()
            for name, row in cases:
                with verdict.case(name):
                    await test(**row, **fixtures)
            verdict.give()

        made: Any = all_cases_async if inspect.iscoroutinefunction(test) else all_cases
        made.__signature__ = signature.replace(parameters=left)  # pytest asks for fixtures by it
        return made

    return decorate


def tabled(test: object) -> Callable[..., Any] | None:
    """The test with the tables of its marks in it, and None for a test without such a mark."""
    if not inspect.isfunction(test):
        return None
    marks = getattr(test, "pytestmark", [])
    tables = [mark for mark in marks if mark.name == "table"]
    if not tables:
        return None
    made: Callable[..., Any] = test
    for mark in tables:
        made = table(*mark.args, **mark.kwargs)(made)
    made.__dict__["pytestmark"] = [mark for mark in marks if mark not in tables]
    return made
