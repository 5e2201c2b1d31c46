"""`trio-mcp gateway`: many servers behind one over stdio, with real children on both sides."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.child import Child, line, parsed, text_of
from tests.cli.command_line import COMMAND, ENVIRONMENT, PATIENCE, config, run
from tests.exposing import ERAS, HANDSHAKE
from tests.peers import Lives, open_lives, peer
from trio_mcp import Connection, Server, open_connection
from trio_mcp.protocol.revisions import Era, ProtocolChoice

pytestmark = [
    pytest.mark.slow,  # Python starts anew for each test
    pytest.mark.skipif(os.name != "posix", reason="stdio servers are POSIX only"),
    pytest.mark.usefixtures("no_process_left"),
]

CALLS = 1_000
ECHO = {"name": "echo", "inputSchema": {"type": "object"}}


def entry(name: str, **options: Any) -> dict[str, Any]:
    """A scripted server as an entry of a configuration file."""
    server = peer(name, **options)
    return {"command": server.command, "args": list(server.args), "env": server.env}


def entries(*names: str, **options: Any) -> dict[str, Any]:
    """Several, each known by its name to `open_lives`."""
    return {name: entry(name, label=name, **options) for name in names}


@asynccontextmanager
async def gateway(
    directory: Path, *, protocol: ProtocolChoice = "auto", on_stderr: Any = None, **servers: Any
) -> AsyncIterator[Connection]:
    """A client's connection to the command."""
    command, *args = (*COMMAND, "gateway", "--config", config(directory, **servers))
    server = Server("g", command=command, args=tuple(args), env=dict(os.environ) | ENVIRONMENT, protocol=protocol)
    with trio.fail_after(PATIENCE):
        async with open_connection(server, on_stderr=on_stderr) as connection:
            yield connection


def names(connection: Connection) -> list[str]:
    return [tool.remote_name for tool in connection.tools]


@pytest.mark.parametrize("era", ERAS)
async def test_a_thousand_calls_to_two_servers_are_all_answered_each_with_its_own(
    tmp_path: Path, era: Era
) -> None:
    answers: dict[int, Any] = {}
    servers = {"old": entry("old", era="legacy"), "new": entry("new", era="modern")}

    async def call(client: Connection, n: int) -> None:
        name = "old" if n % 2 else "new"
        result = await client.call_tool(f"mcp__{name}__echo", {"n": n, "to": name})
        answers[n] = json.loads(result.content)

    async with gateway(tmp_path, protocol=era, **servers) as client, trio.open_nursery() as nursery:
        for n in range(CALLS):
            nursery.start_soon(call, client, n)
    assert answers == {n: {"n": n, "to": "old" if n % 2 else "new"} for n in range(CALLS)}


@pytest.mark.parametrize("era", ERAS)
async def test_killing_one_server_midway_costs_its_calls_alone_and_it_comes_back(tmp_path: Path, era: Era) -> None:
    """Half of a thousand calls wait in each server; one is killed by a call of its own."""
    answers: dict[str, list[str]] = {"mortal": [], "other": []}
    half = CALLS // 2

    async def call(client: Connection, name: str, n: int) -> None:
        result = await client.call_tool(f"mcp__{name}__gather", {"n": n, "count": half + (name == "mortal")})
        assert result.is_error is (name == "mortal")
        answers[name].append(result.content)

    async with open_lives() as lives:
        servers = entries("mortal", "other", alive=lives.port, list_changed=True)
        async with gateway(tmp_path, protocol=era, **servers) as client, client.watch_tools() as changes:
            everything = names(client)
            async with trio.open_nursery() as nursery:
                for n in range(half):
                    nursery.start_soon(call, client, "mortal", n)
                for n in range(half - 1):
                    nursery.start_soon(call, client, "other", n)
                await trio.testing.wait_all_tasks_blocked(0.01)
                await client.call_tool("mcp__mortal__kill", {"signal": signal.SIGKILL})
                assert {tool.remote_name[:10] for tool in await anext(changes)} == {"mcp__other"}
                nursery.start_soon(call, client, "other", half - 1)
            if names(client) != everything:
                await anext(changes)
            assert names(client) == everything
            assert (await client.call_tool("mcp__mortal__echo", {"n": 1})).content == '{"n": 1}'
        assert (lives.starts["mortal"], lives.starts["other"]) == (2, 1)
    assert answers["mortal"] == ['mcp: server "mortal" stopped: was killed by SIGKILL'] * half
    assert sorted(answers["other"], key=int) == [str(n) for n in range(half)]


async def test_cancels_and_progress_pass_through_the_command(tmp_path: Path) -> None:
    steps: list[float] = []

    async def on_progress(progress: float, *_: Any) -> None:
        steps.append(progress)

    async with open_lives() as lives:
        async with gateway(tmp_path, **entries("one", alive=lives.port)) as client:
            await client.call_tool("mcp__one__progress", {"steps": 3}, on_progress=on_progress)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "mcp__one__hang")
                await lives.called(label="one")
                nursery.cancel_scope.cancel()
            await lives.heard("notifications/cancelled", "one")
    assert steps == [1, 2, 3]


async def test_what_servers_say_on_stderr_is_said_with_their_name_and_without_their_secrets(
    tmp_path: Path,
) -> None:
    lines: list[str] = []
    loud = entry("loud", moan="\x1b[31mready\x1b[0m with hunter2hunter2\n" + "x" * 5000 + "\n")
    loud["env"]["API_KEY"] = "hunter2hunter2"
    dead = entry("dead", die=5)
    async with gateway(tmp_path, on_stderr=lines.append, loud=loud, dead=dead) as client:
        assert {name.split("__")[1] for name in names(client)} == {"loud"}
    assert "loud: ready with ***" in lines
    assert f"loud: {'x' * 1000}" in lines
    missing = "its tools are missing until it is up (next try in 1 s)"
    assert f'note: server "dead" did not start: exited with status 5; {missing}' in lines


async def test_a_gateway_in_the_very_file_that_it_reads_costs_only_itself(tmp_path: Path) -> None:
    lines: list[str] = []
    command, *args = (*COMMAND, "gateway", "--config", str(tmp_path / "mcp.json"))
    itself = {"command": command, "args": args, "env": ENVIRONMENT}
    other = entry("other", listed=[ECHO])
    async with gateway(tmp_path, on_stderr=lines.append, itself=itself, other=other) as client:
        assert names(client) == ["mcp__other__echo"]
    (said,) = {text for text in lines if text.startswith("itself: ")}
    assert said.endswith("mcp.json lists this gateway, which would start itself without end: remove that entry")


async def test_a_gateway_may_serve_another(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    file = config(tmp_path / "inner", one=entry("one", listed=[ECHO]))
    command, *args = (*COMMAND, "gateway", "--config", file)
    async with gateway(tmp_path, inner={"command": command, "args": args, "env": ENVIRONMENT}) as client:
        assert names(client) == ["mcp__inner__mcp__one__echo"]
        assert (await client.call_tool("mcp__inner__mcp__one__echo", {"n": 1})).content == '{"n": 1}'


# --- the end


@contextmanager
def running(directory: Path, **servers: Any) -> Iterator[Child]:
    """The command, spoken to by hand, with a modern client's ping answered."""
    with subprocess.Popen(
        [*COMMAND, "gateway", "--config", config(directory, **servers)],
        env=dict(os.environ) | ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


ENDS: dict[str, Callable[[Child], object]] = {
    "EOF": lambda child: child.stdin.close(),
    **{
        number.name: partial(lambda number, child: child.process.send_signal(number), number)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    },
}


async def answer(child: Child) -> tuple[Any, Any]:
    """The next answer; a command that gives none is killed by whoever loses patience."""
    return await trio.to_thread.run_sync(child.take, abandon_on_cancel=True)


async def ended(child: Child, seconds: float) -> float:
    """The exit status is 0 within so many seconds."""
    return await trio.to_thread.run_sync(child.ended_within, seconds, abandon_on_cancel=True)


@pytest.mark.parametrize("end", ENDS)
async def test_at_the_end_the_exit_code_is_0_and_no_server_and_no_child_of_one_is_left(
    tmp_path: Path, end: str
) -> None:
    with trio.fail_after(PATIENCE):
        async with open_lives() as lives:
            servers = entries("one", "two", alive=lives.port)
            servers["stubborn"] = entry("stubborn", label="stubborn", alive=lives.port, children=["stubborn"])
            with running(tmp_path, **servers) as child:
                child.send(line(1, "ping"))
                assert await answer(child) == (1, {})
                ENDS[end](child)
                await ended(child, 6)
                for label in ("one", "two", "stubborn", "child0"):
                    await lives.ended(label)
                assert child.stderr.read() == ""


async def test_a_call_that_is_done_within_the_grace_is_answered_at_the_end(tmp_path: Path) -> None:
    wait = {"name": "mcp__one__wait", "arguments": {"seconds": 0.5}}
    lines = line(1, "initialize", HANDSHAKE) + line(2, "tools/call", wait)
    done = await trio.to_thread.run_sync(
        partial(run, "gateway", "--config", config(tmp_path, **entries("one")), input=lines)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert text_of(parsed(done.stdout)[2]) == "waited"


async def test_servers_that_are_deaf_to_everything_are_gone_before_a_host_loses_patience(tmp_path: Path) -> None:
    """Hosts close stdin, send SIGTERM after 2 s, SIGKILL after 4 s."""
    with trio.fail_after(PATIENCE):
        async with open_lives() as lives:
            servers = entries("a", "b", alive=lives.port, on_eof="ignore", on_term="ignore")
            with running(tmp_path, **servers) as child:
                child.send(line(1, "ping"))
                assert await answer(child) == (1, {})
                began = time.monotonic()
                child.stdin.close()
                await trio.sleep(2)
                child.process.send_signal(signal.SIGTERM)
                await ended(child, 6)
                assert time.monotonic() - began < 5  # 3 s, and what a busy machine adds
                await lives.ended("a")
                await lives.ended("b")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_servers_start_ends_them_and_exits_with_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    with trio.fail_after(PATIENCE):
        async with open_lives() as lives:
            servers = entries("quick", alive=lives.port) | entries("slow", alive=lives.port, start_delay=1000)
            with running(tmp_path, **servers) as child:
                await _came(lives, "quick", "slow")
                child.process.send_signal(number)
                await ended(child, 6)
                assert (child.stdout.read(), child.stderr.read()) == ("", "")
                await lives.ended("quick")
                await lives.ended("slow")


async def _came(lives: Lives, *labels: str) -> None:
    for label in labels:
        await lives.came(label)


async def test_a_stderr_that_nobody_reads_holds_up_no_call(tmp_path: Path) -> None:
    """Neither what servers write there nor what they log may fill the pipe and stop us."""
    log = """
def log(peer, id_, arguments, meta):
    for _ in range(2000):
        peer.notify("notifications/message", {"level": "error", "data": 100 * "e"})
    peer.answer(id_, text("logged"))
CALLS["log"] = log
"""
    calls = [("moan", {"size": 200_000}), ("log", {})] * 3
    with trio.fail_after(PATIENCE), running(tmp_path, **entries("one", era="legacy", source=log)) as child:
        child.send(line(0, "initialize", HANDSHAKE))
        for n, (name, arguments) in enumerate(calls, 1):
            child.send(line(n, "tools/call", {"name": f"mcp__one__{name}", "arguments": arguments}))
        answers = [await answer(child) for _ in range(1 + len(calls))]
        assert {id_ for id_, _ in answers} == set(range(1 + len(calls)))
        child.stdin.close()
        await ended(child, 6)


# --- what is no configuration


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"mcpServers": {}}', "{file} has no server that could be started"),
        (
            '{"mcpServers": {"a": {"command": "x", "disabled": true}}}',
            "{file} has no server that could be started",
        ),
        ('{"mcpServers": {"a": {"args": []}}}', "{file} has no server that could be started"),
        ('{"other": {}}', "path: {file} has no object under mcpServers or servers"),
        ("not json", "{file} is not JSON"),
        (None, "{file} cannot be read: No such file or directory"),
    ],
)
def test_a_file_without_a_usable_server_is_a_complaint_and_exit_code_2(
    tmp_path: Path, text: str | None, complaint: str
) -> None:
    file = tmp_path / "servers.json"
    if text is not None:
        file.write_text(text)
    done = run("gateway", "--config", str(file))
    *_, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout, last.startswith("trio-mcp: ")) == (2, "", True)
    assert complaint.removeprefix("path: ").format(file=file) in last


def test_what_is_wrong_with_the_servers_left_out_is_noted(tmp_path: Path) -> None:
    done = run("gateway", "--config", config(tmp_path, good=entry("good"), bad={"args": []}), input="")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith('note: server "bad" is left out: ')


def test_without_a_file_the_usage_error_is_exit_code_2() -> None:
    done = run("gateway")
    assert (done.returncode, done.stdout, "--config" in done.stderr) == (2, "", True)


@pytest.mark.slow
@pytest.mark.parametrize(("closing", "number"), [("<&-", 0), (">&-", 1)])
def test_a_closed_descriptor_is_one_line_and_exit_code_2(tmp_path: Path, closing: str, number: int) -> None:
    done = subprocess.run(
        [
            "sh",
            "-c",
            f'exec "$@" {closing}',
            "sh",
            *COMMAND,
            "gateway",
            "--config",
            config(tmp_path, a=entry("a")),
        ],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    complaint = f"trio-mcp: descriptor {number} is closed: there is no client to serve over stdio\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", complaint)
