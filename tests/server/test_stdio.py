"""serve_stdio in real processes: the wire, the end of input, and the descriptors of a process that serves."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import trio_mcp
from tests.child import Child, call, line, parsed, text_of
from tests.exposing import HANDSHAKE
from trio_mcp import ServerLimits, ToolServer, serve_stdio

pytestmark = [
    pytest.mark.slow,  # Python starts anew for each test
    pytest.mark.skipif(os.name != "posix", reason="stdio servers are POSIX only"),
    pytest.mark.usefixtures("nothing_left"),
]

ROOT = Path(trio_mcp.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PROGRAM = (sys.executable, "-m", "tests.server.stdio_program")
EOF_GRACE = ServerLimits().eof_grace
PATIENCE = 30  # seconds: a slow shared machine
BOUND = 2.0  # seconds that a process gets to end by itself, on top of what it is given


def run(*command: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command or PROGRAM,
        cwd=ROOT,
        env=env or {**ENVIRONMENT, **marked()},
        capture_output="stdout" not in options,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
        **options,
    )


def marked() -> dict[str, str]:
    """What marks the processes of a test (tests/conftest.py)."""
    return {key: value for key, value in os.environ.items() if key.startswith("TRIO_MCP_TEST")}


@contextmanager
def child(*more: str, command: tuple[str, ...] = PROGRAM) -> Iterator[Child]:
    process = subprocess.Popen(
        [*command, *more],
        cwd=ROOT,
        env={**ENVIRONMENT, **marked()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        try:
            yield Child(process)
        finally:
            process.kill()


# --- the end of input


def test_ten_calls_then_the_end_of_input_are_ten_answers_then_exit_0() -> None:
    lines = [call(number, "echo", text=f"é {number}") for number in range(10)]
    done = run(input="".join(lines))
    assert {id_: text_of(result) for id_, result in parsed(done.stdout).items()} == {
        number: f"é {number}" for number in range(10)
    }
    assert (done.returncode, done.stderr) == (0, "")


def test_a_legacy_client_may_send_everything_at_once() -> None:
    calls = [
        line(number, "tools/call", {"name": "echo", "arguments": {"text": str(number)}}) for number in range(10)
    ]
    ready = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n"
    done = run(input=line("init", "initialize", HANDSHAKE) + ready + line("list", "tools/list") + "".join(calls))
    answers = parsed(done.stdout)
    assert answers.pop("init")["protocolVersion"] == "2025-11-25"
    assert len(answers.pop("list")["tools"]) == 5
    assert {id_: text_of(result) for id_, result in answers.items()} == {
        number: str(number) for number in range(10)
    }
    assert (done.returncode, done.stderr) == (0, "")


def test_a_slow_call_gets_its_grace_at_the_end_of_input_and_an_endless_one_is_cancelled() -> None:
    with child() as server:
        server.send(call(1, "sleep", seconds=0.5), call(2, "sleep", seconds=1000), line(3, "ping"))
        assert server.take()[0] == 3
        server.stdin.close()
        took = server.ended_within(EOF_GRACE + BOUND)
        assert took >= EOF_GRACE - 0.1
        assert list(parsed(server.stdout.read())) == [1]


def test_stdin_may_be_a_file(tmp_path: Path) -> None:
    """epoll takes no regular file; reading one never blocks."""
    requests, answers = tmp_path / "in", tmp_path / "out"
    requests.write_text("".join(call(number, "echo", text=str(number)) for number in range(3)))
    with requests.open() as stdin, answers.open("w") as stdout:
        done = run(stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(parsed(answers.read_text())) == [0, 1, 2]


def test_stdin_may_be_nothing() -> None:
    done = run(stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_stop_ends_it_while_the_client_still_holds_on() -> None:
    with child() as server:
        server.send(call(1, "halt"))
        id_, result = server.take()
        assert (id_, text_of(result)) == (1, "stopping")
        server.ended_within(BOUND)
        assert server.stdout.read() == ""


# --- what tools may do to the process


def test_a_tool_that_prints_and_forks_and_writes_to_descriptor_1_does_not_break_the_wire() -> None:
    with child() as server:
        server.send(call(1, "noisy"))
        id_, result = server.take()
        assert (id_, text_of(result)) == (1, "read b''")  # descriptor 0 reads nothing
        server.send(call(2, "echo", text="still here"))
        assert text_of(server.take()[1]) == "still here"
        server.stdin.close()
        server.ended_within(EOF_GRACE + BOUND)
        assert server.stdout.read() == ""
        said = server.stderr.read()
        for text in ("printed", "written, without an end", "to descriptor 1", "a fork", "a shell", "to stderr"):
            assert said.count(text) == 1


def test_a_blocking_function_holds_up_neither_ping_nor_other_calls_nor_the_end() -> None:
    with child() as server:
        server.send(call(1, "block", seconds=1000))
        assert server.stderr.readline() == "blocking\n"
        server.send(line(2, "ping"))
        assert server.take() == (2, {})
        server.send(call(3, "echo", text="quick"))
        assert text_of(server.take()[1]) == "quick"
        server.stdin.close()
        server.ended_within(EOF_GRACE + BOUND)
        assert server.stdout.read() == ""


# --- descriptors

RESTORED = """
import os, sys, trio
from trio_mcp import ToolServer, serve_stdio
def state(): return [(os.fstat(fd).st_dev, os.fstat(fd).st_ino, os.get_blocking(fd)) for fd in (0, 1)]
before, fds = state(), len(os.listdir("/dev/fd"))
print("before", end="")
async def main():
    server = ToolServer("s")
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_stdio, server)
        print("while", file=sys.stdout)
        os.write(2, repr([before[n][:2] == state()[n][:2] for n in (0, 1)]).encode() + b"\\n")
        nursery.cancel_scope.cancel()
    with trio.move_on_after(0.05):
        await serve_stdio(server)
trio.run(main)
print(" after", state() == before, len(os.listdir("/dev/fd")) == fds)
"""


def test_descriptors_lead_elsewhere_while_serving_and_are_restored_also_after_a_cancel() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.PIPE) as holder:
        try:
            done = run(sys.executable, "-c", RESTORED, stdin=holder.stdout)
        finally:
            holder.kill()
    assert (done.returncode, done.stdout) == (0, "before after True True\n"), done.stderr
    assert sorted(done.stderr.splitlines()) == ["[False, False]", "while"]


def test_one_socket_for_both_is_left_as_it_was() -> None:
    """Two descriptors of one open file share its mode: what was opened last is closed first."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", RESTORED],
            cwd=ROOT,
            env={**ENVIRONMENT, **marked()},
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
        )
        assert process.wait(PATIENCE) == 0
        ours.settimeout(1)
        assert ours.recv(1000) == b"before after True True\n"


@pytest.mark.parametrize(("closing", "number"), [("<&-", 0), (">&-", 1), ("<&- >&-", 0)])
def test_a_closed_descriptor_is_a_runtime_error(closing: str, number: int, tmp_path: Path) -> None:
    """Where 0 is closed, trio's own epoll takes it: that is no client either."""
    source = (
        "import sys, trio\nfrom trio_mcp import ToolServer, serve_stdio\n"
        "try: trio.run(serve_stdio, ToolServer('s'))\n"
        "except RuntimeError as error: open(sys.argv[1], 'w').write(str(error))\n"
    )
    said = tmp_path / "said"
    done = run("sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, "-c", source, str(said))
    assert done.returncode == 0
    assert said.read_text() == f"descriptor {number} is closed: there is no client to serve over stdio"


def test_without_stderr_what_tools_print_goes_nowhere() -> None:
    command = ("sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM)
    with child(command=command) as server:
        server.send(call(1, "echo", text="x"), call(2, "sleep", seconds=0))
        assert {server.take()[0], server.take()[0]} == {1, 2}
        server.stdin.close()
        server.ended_within(EOF_GRACE + BOUND)
        assert server.stdout.read() == ""


async def test_what_is_no_tool_server_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="server: expected ToolServer, got str"):
        await serve_stdio("server")  # type: ignore[arg-type]
    assert isinstance(ToolServer("x"), ToolServer)


# --- a client that dies

CLIENT = """
import sys, trio
from trio_mcp import Server, open_connection
async def main(command):
    server = Server("child", command=command[0], args=command[1:], env=dict(__import__("os").environ))
    async with open_connection(server) as connection, trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(connection.call_tool, "sleep", {"seconds": 1000})
        await trio.testing.wait_all_tasks_blocked(0.05)
        print(connection.statistics().calls_in_flight, flush=True)
import trio.testing
trio.run(main, sys.argv[1:])
"""


def test_a_client_that_is_killed_while_100_calls_run_leaves_a_server_that_has_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        port = str(listener.getsockname()[1])
        with child(*PROGRAM, "--alive", port, command=(sys.executable, "-c", CLIENT)) as client:
            alive, _ = listener.accept()
            with alive:
                assert client.stdout.readline() == "100\n"
                client.process.kill()
                client.process.wait()
                alive.settimeout(EOF_GRACE + BOUND)
                assert alive.recv(1) == b""  # its end of the socket is closed: the process is gone
