"""The gateway before a client that nobody here wrote, with tools over which that stumbles elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import verbatim_server
from tests.cli.command_line import COMMAND, config
from tests.interop import install
from tests.interop.scenario import PATIENCE
from trio_mcp.version import __version__

pytestmark = pytest.mark.interop

DRIVER = Path(__file__).with_name("clients") / "typescript_v1_listing.cjs"
NEEDED = ("node", "node_modules")


def test_the_typescript_client_lists_a_schema_without_type_and_an_output_schema_that_is_no_object(
    tmp_path: Path,
) -> None:
    """It refuses the whole listing over either, when they come from the server itself."""
    missing = [name for name in NEEDED if not (install.HOME / f"{name}.installed").is_file()]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (python tests/interop/install.py)")
    upstream = {"command": sys.executable, "args": ["-I", verbatim_server.__file__]}
    file = config(tmp_path, odd=upstream, too=upstream)

    def visit(*server: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [install.node_tool("node"), DRIVER, "legacy", *server],
            cwd=install.ROOT,  # the gateway inherits it: this checkout is what serves
            env={**os.environ, "NODE_PATH": str(install.HOME / "node_modules")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )

    refused = visit(upstream["command"], *upstream["args"])  # type: ignore[arg-type]
    assert refused.returncode != 0
    assert b"inputSchema" in refused.stderr
    assert b"outputSchema" in refused.stderr

    done = visit(*COMMAND, "gateway", "--config", file)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    report = json.loads(done.stdout)
    assert report["server"] == {"name": "gateway", "version": __version__}
    listed = {tool["name"]: tool for tool in report["tools"]}
    assert list(listed) == [f"mcp__{name}__{tool}" for name in ("odd", "too") for tool in verbatim_server.ENTRIES]
    for name in ("odd", "too"):
        typeless = json.loads(verbatim_server.TYPELESS)
        assert listed[f"mcp__{name}__typeless"]["inputSchema"].keys() == {"type", *typeless}
        assert listed[f"mcp__{name}__typeless"]["inputSchema"]["type"] == "object"
        # A legacy client takes no schema of an array: it gets one of an object with the array in it.
        wrapped = listed[f"mcp__{name}__numbers"]["outputSchema"]
        assert (wrapped["type"], wrapped["required"]) == ("object", ["result"])
        assert wrapped["properties"]["result"] == json.loads(verbatim_server.ARRAY)
        assert report["results"][f"mcp__{name}__failing"]["isError"] is True
        sent = json.loads(verbatim_server.RESULTS["numbers"])
        given = report["results"][f"mcp__{name}__numbers"]
        assert given["content"] == sent["content"]
        assert given["structuredContent"] == {"result": sent["structuredContent"]}
