"""The README's program, with the very server that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import install, python_servers
from tests.test_readme import run_example

pytestmark = pytest.mark.interop


def test_the_examples_run_with_the_real_server(tmp_path: Path, no_process_left: dict[str, str]) -> None:
    python_servers.TIME.scenario(tmp_path)
    folder = install.program("time", "mcp-server-time").parent
    names, *result = run_example("example", folder)
    assert names == "['mcp__time__get_current_time', 'mcp__time__convert_time']"
    assert '"timezone": "Asia/Tokyo",' in "\n".join(result)
    name, *result = run_example("agent-example", folder)
    assert name == "mcp__time__get_current_time"
    assert '"timezone": "Asia/Tokyo",' in "\n".join(result)
