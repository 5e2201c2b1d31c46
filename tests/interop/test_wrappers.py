"""The servers from npm as people start them: not directly, but below a wrapper that waits for its child.

The wrapper is the leader of the process group and knows nothing of MCP; the server is its child or its
grandchild.
"""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

import pytest
import trio

from tests.interop import install, node_servers
from tests.interop.scenario import PATIENCE, Scenario, check_listing
from trio_mcp import ServerStoppedError, open_connection

pytestmark = pytest.mark.interop

KNOWN = {
    "everything": node_servers.EVERYTHING,
    "filesystem": node_servers.FILESYSTEM,
    "memory": node_servers.MEMORY,
}
every_server = pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)


def shell_wrapper(tmp: Path, command: tuple[str, ...]) -> tuple[str, ...]:
    """A script that runs the command as its child, waits for it, and passes its status on."""
    script = tmp / "wrapper"
    script.write_text(f'#!/bin/sh\n{shlex.join(command)} "$@"\nstatus=$?\nexit $status\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return (str(script),)


def npx(scenario: Scenario) -> tuple[str, ...]:
    """The same server through the real npx, which finds it in node_modules and asks no registry."""
    _, module, *arguments = scenario.command
    package = "/".join(Path(module).parts[-4:-2])
    node = str(install.node_tool("node"))
    script = str(install.node_tool("npx"))
    return (node, script, "--no", "--offline", "--", package, *arguments)


async def call_everything(scenario: Scenario, command: tuple[str, ...], mark: dict[str, str]) -> None:
    # npx looks for packages from the working directory upwards.
    env = {**mark, "PATH": install.node_environment()["PATH"], "npm_config_update_notifier": "false"}
    with trio.fail_after(PATIENCE):
        async with open_connection(scenario.server(env, command=command, cwd=install.HOME)) as connection:
            check_listing(connection, scenario)
            for call in scenario.calls:
                call.judge(await connection.call_tool(call.tool, call.arguments))


@every_server
async def test_a_server_below_a_shell_answers_and_is_gone(
    scenario: Scenario, tmp_path: Path, nothing_left: dict[str, str]
) -> None:
    await call_everything(scenario, shell_wrapper(tmp_path, scenario.command), nothing_left)


@every_server
async def test_a_server_below_npx_answers_and_is_gone(scenario: Scenario, nothing_left: dict[str, str]) -> None:
    await call_everything(scenario, npx(scenario), nothing_left)


@pytest.mark.parametrize("known", [node_servers.EVERYTHING], ids=["everything"])
async def test_a_call_in_flight_learns_that_the_server_below_the_wrapper_was_killed(
    scenario: Scenario, tmp_path: Path, nothing_left: dict[str, str]
) -> None:
    # The wrapper kills its child when it is told to, and goes on to its own end with the child's status.
    script = tmp_path / "wrapper"
    script.write_text(
        f'#!/bin/sh\nexec 3<&0\n{shlex.join(scenario.command)} <&3 3<&- &\ntrap "kill -KILL $!" USR1\n'
        f"echo $$ > {shlex.quote(str(tmp_path / 'pid'))}\nwait $!\nwait $!\nexit $?\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    server = scenario.server(nothing_left, command=(str(script),))
    with trio.fail_after(PATIENCE):
        async with open_connection(server) as connection:
            started = trio.Event()

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                started.set()

            async def kill() -> None:
                await started.wait()
                pid = (tmp_path / "pid").read_text().strip()
                await trio.run_process(["kill", "-USR1", pid])

            async with trio.open_nursery() as nursery:
                nursery.start_soon(kill)
                with pytest.raises(ServerStoppedError) as caught:
                    await connection.call_tool(
                        "trigger-long-running-operation",
                        {"duration": 60, "steps": 600},
                        on_progress=on_progress,
                    )
            assert caught.value.returncode == 137
            assert connection.error is not None
