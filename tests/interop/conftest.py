"""Where the servers must be there (TRIO_MCP_INTEROP=required, as in .ci/run), a skipped test is a failed one."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.interop.scenario import Known, Scenario


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("TRIO_MCP_INTEROP") == "required":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"no test may be skipped here: {reason}"
    return report


@pytest.fixture
def scenario(known: Known, tmp_path: Path) -> Scenario:
    """The scenario of the server that the test is parametrized with; skipped where that is not installed."""
    return known.scenario(tmp_path)
