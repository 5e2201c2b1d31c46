"""What is asked of a server nobody here wrote, as data: how it is started, and a sensible call of each tool.

A scenario is made for one temporary directory. Calls stand in the order in which they make sense (a table is
created before it is read). The tests compare the tools that are called with the server's own list, so that
none can be forgotten, and none can vanish unnoticed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.interop import install
from trio_mcp import Connection, Server, ToolResult, default_environment, tool_name

#: What is given as `protocol` -> the revision that both sides then speak.
LEGACY = {"auto": "2025-11-25", "legacy": "2025-11-25"}
BOTH = {"auto": "2026-07-28", "modern": "2026-07-28", "legacy": "2025-11-25"}

#: Far beyond what any of it takes: a slow machine is no failure, a hang is.
PATIENCE = 120


@dataclass(frozen=True)
class Call:
    """One call and what its result must show: texts in `content`, a structured value, the blocks' classes."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    structured: Callable[[Any], bool] | None = None
    blocks: tuple[str, ...] = ("Text",)
    is_error: bool = False

    def judge(self, result: ToolResult) -> None:
        """Assert that this is the call's result."""
        assert result.is_error is self.is_error, result
        assert tuple(type(block).__name__ for block in result.blocks) == self.blocks, result
        for text in self.says:
            assert text in result.content, result
        if self.structured is not None:
            assert self.structured(result.structured), result


@dataclass(frozen=True)
class Scenario:
    """One server started in one directory, and everything that is asked of it."""

    command: tuple[str, ...]
    calls: tuple[Call, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Tools that tests of their own call.
    elsewhere: tuple[str, ...] = ()
    #: What the server prints on stderr when it has come up.
    stderr: str = ""

    def server(
        self,
        mark: Mapping[str, str],
        *,
        name: str = "outside",
        command: tuple[str, ...] | None = None,
        **more: Any,
    ) -> Server:
        """The server as trio_mcp starts it; `mark` goes into its environment."""
        program, *args = command or self.command
        env = {**default_environment(), **self.environment, **mark}
        return Server(name, command=program, args=args, env=env, **more)


@dataclass(frozen=True)
class Known:
    """One server that the tests know: how its scenario is made, what must be installed, what it speaks."""

    make: Callable[[Path], Scenario]
    needs: tuple[str, ...]
    speaks: Mapping[str, str]

    def scenario(self, tmp: Path) -> Scenario:
        """Its scenario, or a skipped test that says how to get the server."""
        missing = [name for name in self.needs if not _is_there(name)]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)} (python tests/interop/install.py)")
        return self.make(tmp)


def _is_there(name: str) -> bool:
    if name == "the git program":
        return shutil.which("git") is not None
    return (install.HOME / f"{name}.installed").is_file()


def check_listing(connection: Connection, scenario: Scenario) -> None:
    """The tools are those that the scenario calls, under our names, with usable schemas."""
    known = {call.tool for call in scenario.calls} | {*scenario.elsewhere}
    assert {tool.remote_name for tool in connection.tools} == known
    assert {tool.name for tool in connection.tools} == {tool_name("outside", name) for name in known}
    assert connection.warnings == ()
    for tool in connection.tools:
        assert tool.input_schema["type"] == "object"
        assert json.loads(tool.input_schema_json)["type"] == "object"
        assert tool.description.startswith(f"Tool {tool.remote_name} from the MCP server outside.")
