"""The fork server runs while the tests of the command line run: nine tenths of a short command are its imports."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cli.command_line import forks


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> Iterator[None]:
    """Before the first test, so that no test sees it come or go."""
    if not hasattr(os, "fork"):
        yield
        return
    with forks.open():
        yield
