"""Every test of a fault leaves nothing behind: no descriptor and no child; after each file, no process at all.

A grandchild is looked for once a file, because that means reading all of /proc; where one matters, the test itself
asks for it by the socket that it connects back on (tests/peers.py).
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.conftest import MARK, VANISHING, processes


@pytest.fixture(autouse=True, scope="module")
def no_process_left_by_the_file() -> Iterator[None]:
    """What `peers.environment` marks is gone, in whatever session it was, and there is no zombie of ours."""
    mark = uuid.uuid4().hex
    before = processes(mark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        yield
    deadline = time.monotonic() + VANISHING
    while left := {pid: what for pid, what in processes(mark).items() if pid not in before}:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.01)  # the kernel tells nobody but the parent


@pytest.fixture(autouse=True)
def no_child_left(no_descriptor_left: None) -> Iterator[None]:
    """Each child of ours has ended and has been reaped, at once."""
    before = _children()
    yield
    assert _children() <= before


@pytest.fixture(autouse=True)
def every_log_line_is_caught(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def _children() -> set[int]:
    found: set[int] = set()
    if not os.path.isdir("/proc/self/task"):
        return found  # not Linux
    for thread in os.listdir("/proc/self/task"):
        # A thread may end meanwhile: its children are another's then.
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/self/task/{thread}/children") as file:
            found |= set(map(int, file.read().split()))
    return found
