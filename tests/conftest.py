"""Fixtures that any test may ask for: what a test started is gone when it ends, and what it opened is closed.

`nothing_left` is for tests with real processes. Deadlines are the tests' own business: `trio.fail_after`
around every wait that could hang. This file must not know trio_mcp, so that a broken library cannot hide its
own leaks.
"""

from __future__ import annotations

import gc
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from tests import depth, table

depth.register()

# Whoever started the tests may ignore signals (nohup, a shell's background job), and children inherit that.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)

#: The variable by which a process of a test is known, whoever is its parent by now.
MARK = "TRIO_MCP_TEST_MARK"

#: How long a killed process may take to vanish on a busy machine. The library's own bounds are tested apart.
VANISHING = 2.0


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: Any) -> Any:
    """Collect a test marked as a table as one test that runs every case: see table.py."""
    tabled = table.tabled(obj)
    if tabled is None:
        return None  # pytest's own way
    setattr(collector.obj, name, tabled)  # the item looks its function up again
    return collector.ihook.pytest_pycollect_makeitem(collector=collector, name=name, obj=tabled)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what pytest and the tests themselves hold: it would look through that often."""
    gc.collect()
    gc.freeze()


def open_descriptors() -> dict[int, str]:
    """This process's open descriptors and what each leads to."""
    found = {}
    for entry in os.listdir("/dev/fd"):
        try:
            found[int(entry)] = os.readlink(f"/proc/self/fd/{entry}")
        except FileNotFoundError:
            continue  # the one that listed the directory
        except OSError:
            found[int(entry)] = "?"
    return found


def _state_and_parent(pid: str) -> tuple[str, int]:
    fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[1])


def processes(mark: str) -> dict[int, str]:
    """What carries the mark in its environment and is no zombie, and each child of ours, zombies included."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = _state_and_parent(entry.name)
            ours = parent == os.getpid()
            marked = state != "Z" and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
            if ours or (marked and int(entry.name) != os.getpid()):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(entry.name)] = f"{state} {command}"
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # gone meanwhile, or somebody else's
    return found


@pytest.fixture
def fast_clock() -> MockClock:
    """Time for trio runs ten times as fast: for waits between tasks, or beside processes that wait themselves."""
    return MockClock(rate=10)


@pytest.fixture
def no_descriptor_left() -> Iterator[None]:
    """The set of open descriptors is the same before the test and after it."""
    before = open_descriptors()
    yield
    after = open_descriptors()
    assert after.keys() == before.keys(), f"left open: { {fd: after[fd] for fd in after.keys() - before.keys()} }"


@pytest.fixture
def no_process_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Nothing that the test started runs on after it, and no child is left unreaped.

    The value is the variable that marks the test's processes. It is in `os.environ`, and goes into the
    environment of each server whose environment is given; grandchildren inherit it, in whatever session.
    """
    if not Path("/proc/self/environ").exists():
        pytest.skip("looks for processes in /proc")
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    before = processes(mark)
    yield {MARK: mark}
    deadline = time.monotonic() + VANISHING
    while left := {pid: what for pid, what in processes(mark).items() if pid not in before}:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.01)  # the kernel tells nobody but the parent


@pytest.fixture
def nothing_left(no_descriptor_left: None, no_process_left: dict[str, str]) -> dict[str, str]:
    """Neither a process nor a descriptor is left; the value is that of `no_process_left`."""
    return no_process_left
