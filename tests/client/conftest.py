"""Fixtures for tests of connections: fake servers at the spawn seam, and no memory of the era of earlier ones."""

from __future__ import annotations

import pytest
import trio

from tests.fakes import MODERN, FakeHost, serving
from trio_mcp.protocol.negotiation import ERAS
from trio_mcp.transports.stdio import transport as stdio


@pytest.fixture(autouse=True)
def _no_era_is_remembered() -> None:
    ERAS.clear()


@pytest.fixture
def host(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """Starts fake processes in place of real ones, by default modern servers. A test has to ask for it by name."""
    host = FakeHost(nursery, serving(MODERN))
    monkeypatch.setattr(stdio, "start_process", host.start_process)
    return host
