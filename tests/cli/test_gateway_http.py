"""`trio-mcp gateway --http`: many servers behind one HTTP endpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.cli.command_line import COMMAND, ENVIRONMENT, PATIENCE, config, run
from tests.exposing import ERAS
from trio_mcp import Server, open_connection
from trio_mcp.protocol.revisions import Era

pytestmark = [
    pytest.mark.slow,  # Python starts anew for each test
    pytest.mark.skipif(os.name != "posix", reason="stdio servers are POSIX only"),
    pytest.mark.usefixtures("no_process_left"),
]

DEMO = {"command": sys.executable, "args": ["-m", "trio_mcp", "serve", "trio_mcp.demo:server"], "env": ENVIRONMENT}


@pytest.mark.parametrize("era", ERAS)
async def test_tools_of_all_servers_are_called_at_one_endpoint_until_a_signal(tmp_path: Path, era: Era) -> None:
    command = [*COMMAND, "gateway", "--config", config(tmp_path, one=DEMO, two=DEMO), "--http", "0"]
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            process = await nursery.start(_run, command)
            said = b""
            while b" is served at " not in said or not said.endswith(b"\n"):
                said += await process.stderr.receive_some()
            url = said.decode().rpartition(" is served at ")[2].strip()
            async with open_connection(Server("g", url=url, protocol=era)) as client:
                names = [tool.remote_name for tool in client.tools]
                assert {name.partition("__")[2].partition("__")[0] for name in names} == {"one", "two"}
                for name in ("one", "two"):
                    assert (await client.call_tool(f"mcp__{name}__echo", {"text": name})).content == name
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


def test_an_address_that_is_none_is_told_before_anything_is_started(tmp_path: Path) -> None:
    done = run("gateway", "--config", config(tmp_path, one=DEMO), "--http", "nowhere")
    assert done.returncode == 2
    assert "--http takes [HOST:]PORT" in done.stderr


async def _run(command: list[str], *, task_status: trio.TaskStatus[trio.Process]) -> None:
    await trio.run_process(
        command,
        env=dict(os.environ) | ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        task_status=task_status,
    )
