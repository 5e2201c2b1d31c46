"""Starting real programs: what comes up, and a different reason for each way in which it cannot."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.conftest import open_descriptors
from tests.far_end import Heard
from trio_mcp.errors import ServerStartError
from trio_mcp.models.server import Server
from trio_mcp.transports.limits import ProcessLimits
from trio_mcp.transports.stdio import process as process_module
from trio_mcp.transports.stdio.process import CannotStart, Process, start_process
from trio_mcp.transports.stdio.transport import StdioTransport

ENV = {"PATH": os.defpath}
LIMIT = 20


def write_program(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


async def reason(
    command: str, args: Sequence[str] = (), env: Mapping[str, str] = ENV, cwd: str | None = None
) -> str:
    """Why this cannot be started."""
    with trio.fail_after(LIMIT), pytest.raises(CannotStart) as caught:
        await start_process(command, args, env, cwd)
    return str(caught.value)


async def run_to_end(process: Process) -> bytes:
    """What a process writes until it ends, after the end of its input."""
    written = bytearray()

    async def read(stream: trio.abc.ReceiveStream) -> None:
        async for chunk in stream:
            written.extend(chunk)

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.watch)
            nursery.start_soon(read, process.stdout)
            nursery.start_soon(read, process.stderr)
            await process.stop(LIMIT)
        await process.stdout.aclose()
        await process.stderr.aclose()
    return bytes(written)


async def test_four_threads_at_most_start_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is memory that trio keeps for a while: with a hundred servers it would be a fifth of all."""
    starting = most = 0
    lock = threading.Lock()
    popen = subprocess.Popen

    def counted(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        nonlocal starting, most
        with lock:
            starting += 1
            most = max(most, starting)
        try:
            return popen(*args, **options)
        finally:
            with lock:
                starting -= 1

    monkeypatch.setattr(subprocess, "Popen", counted)

    async def one() -> None:
        assert await run_to_end(await start_process("true", (), ENV, None)) == b""

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(one)
    assert 1 <= most <= process_module.STARTED_AT_ONCE == 4


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "gone"


def python(program: str) -> tuple[str, tuple[str, ...]]:
    return sys.executable, ("-I", "-S", "-c", program)


@pytest.fixture
def cases(tmp_path: Path) -> dict[str, tuple[Any, ...]]:
    """Every way not to start, by name: the arguments of `start_process`."""
    file = write_program(tmp_path / "a-file", "", 0o644)
    no_interpreter = write_program(tmp_path / "no-interpreter", "#!/nowhere/python9\nprint()\n")
    return {
        "missing command": ("/nowhere/server",),
        "relative command missing": ("./server", (), ENV, str(tmp_path)),
        "arguments in the command": ("server --at a/b", (), ENV),
        "not on the server's PATH": ("no-such-server", (), ENV),
        "not on the parent's PATH": ("no-such-server", (), {}),
        "missing interpreter": (no_interpreter,),
        "missing cwd": (sys.executable, (), ENV, str(tmp_path / "gone")),
        "cwd is a file": (sys.executable, (), ENV, file),
        "no x bit": (file,),
        "a directory": (str(tmp_path),),
        "no executable format": (write_program(tmp_path / "no-format", "print()\n"),),
        "NUL in an argument": (sys.executable, ("a\0b",)),
        "NUL in the environment": (sys.executable, (), {**ENV, "A": "a\0b"}),
        "lone surrogate": (sys.executable, ("\ud800",)),
        "too long": (sys.executable, ("x" * 200_000,)),
        "a file as a directory": (file + "/server",),
    }


EXPECTED = {
    "missing command": "the command '/nowhere/server' does not exist",
    "relative command missing": "the command './server' does not exist",
    "arguments in the command": "the command 'server --at a/b' does not exist; arguments belong into args, .*",
    "not on the server's PATH": "the command 'no-such-server' is not on the server's PATH",
    "not on the parent's PATH": "the command 'no-such-server' is not on PATH",
    "missing interpreter": r"the interpreter that the first line .*no-interpreter' .*: '/nowhere/python9'",
    "missing cwd": "the working directory '.*gone' does not exist",
    "cwd is a file": "the working directory '.*a-file' is no directory",
    "no x bit": "the command '.*a-file' is not executable: its file has no x bit",
    "a directory": "the command '.*' is a directory",
    "no executable format": "the command '.*no-format' is not an executable format: no program, and no #!.*",
    "NUL in an argument": "the command line or the environment of '.*' cannot be passed on: .*null byte",
    "NUL in the environment": "the command line or the environment of '.*' cannot be passed on: .*null byte",
    "lone surrogate": "the command line or the environment of '.*' cannot be passed on: .*surrogates.*",
    "too long": "the arguments and the environment of '.*' are too long for the operating system",
    "a file as a directory": "the operating system did not start '.*a-file/server': Not a directory",
}


@pytest.mark.parametrize("case", EXPECTED)
async def test_each_way_not_to_start_has_its_own_reason_and_leaks_nothing(
    case: str, cases: dict[str, tuple[Any, ...]], nothing_left: dict[str, str]
) -> None:
    assert re.fullmatch(EXPECTED[case], await reason(*cases[case]))


async def test_the_reasons_are_all_different(cases: dict[str, tuple[Any, ...]]) -> None:
    """A missing working directory and a missing command used to read alike."""
    same = {"NUL in an argument", "NUL in the environment"}
    reasons = [await reason(*case) for name, case in cases.items() if name not in same]
    assert len(set(reasons)) == len(reasons)


async def test_a_bare_command_is_looked_up_on_the_childs_path(
    tmp_path: Path, nothing_left: dict[str, str]
) -> None:
    write_program(tmp_path / "only-here", "#!/bin/sh\necho found\n")
    process = await start_process("only-here", (), {"PATH": str(tmp_path)}, None)
    assert await run_to_end(process) == b"found\n"


async def test_without_a_path_in_its_environment_it_is_looked_up_on_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_left: dict[str, str]
) -> None:
    write_program(tmp_path / "only-here", "#!/bin/sh\necho found\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    process = await start_process("only-here", (), {"A": "1"}, None)
    assert await run_to_end(process) == b"found\n"
    assert "the server's PATH" in await reason("only-here", (), {"PATH": "/nowhere"})


async def test_a_relative_command_is_found_from_the_working_directory(
    tmp_path: Path, nothing_left: dict[str, str]
) -> None:
    write_program(tmp_path / "here", "#!/bin/sh\npwd\n")
    process = await start_process("./here", (), ENV, str(tmp_path))
    assert await run_to_end(process) == str(tmp_path).encode() + b"\n"


async def test_the_environment_is_the_whole_environment(nothing_left: dict[str, str]) -> None:
    command, args = python("import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))")
    process = await start_process(command, args, {"ONLY": "this"}, None)
    assert await run_to_end(process) == b"['ONLY']\n"


async def test_the_child_leads_a_session_and_a_group_of_its_own(nothing_left: dict[str, str]) -> None:
    """Ctrl-C at the terminal goes to the program alone."""
    process = await start_process(*python("import os; print(os.getpid(), os.getpgid(0), os.getsid(0))"), ENV, None)
    pid, group, session = (await run_to_end(process)).split()
    assert pid == group == session
    assert int(session) != os.getsid(0)


async def test_the_child_inherits_no_descriptor_but_its_three(nothing_left: dict[str, str]) -> None:
    """Were another server to hold our end of a pipe, its reader would never see the end of its input."""
    first = await start_process("cat", (), ENV, None)
    second = await start_process(*python("import os; print(len(os.listdir('/proc/self/fd')))"), ENV, None)
    assert await run_to_end(second) == b"4\n"  # 0, 1, 2, and the one that lists
    assert await run_to_end(first) == b""


async def test_a_leader_that_has_exited_stays_unreaped_until_the_group_has_been_signalled(
    nothing_left: dict[str, str],
) -> None:
    process = await start_process(*python("import os; print(os.getpid(), flush=True); os._exit(7)"), ENV, None)
    with trio.fail_after(LIMIT):
        pid = int(await process.stdout.receive_some())
        await process.watch()
    assert process.returncode == 7
    repr(process)
    assert state_of(pid) == "Z"
    await run_to_end(process)
    assert state_of(pid) == "gone"


async def test_after_the_end_nothing_is_written_to_a_descriptor_that_may_be_another_by_now(
    nothing_left: dict[str, str],
) -> None:
    process = await start_process(*python("print(input())"), ENV, None)
    assert process.write_now(b"hello\n") == 6
    assert await run_to_end(process) == b"hello\n"
    reader, writer = os.pipe()  # takes the lowest free numbers
    try:
        assert process.write_now(b"lost") == 0
    finally:
        os.close(reader)
        os.close(writer)


async def test_a_signal_is_told_as_a_negative_status(nothing_left: dict[str, str]) -> None:
    process = await start_process(*python("import os; os.kill(os.getpid(), 9)"), ENV, None)
    with trio.fail_after(LIMIT):
        await process.watch()
    assert process.returncode == -signal.SIGKILL
    await run_to_end(process)


async def test_an_exit_status_that_somebody_else_collected_is_unknown_not_0(nothing_left: dict[str, str]) -> None:
    process = await start_process(*python("import os; print(os.getpid(), flush=True); input()"), ENV, None)
    with trio.fail_after(LIMIT):
        pid = int(await process.stdout.receive_some())
        await process.stdin.send_all(b"\n")
        await trio.to_thread.run_sync(os.waitpid, pid, 0)
        await process.watch()
    assert process.exited.is_set()
    assert process.returncode is None
    await run_to_end(process)


async def test_without_pidfds_a_process_is_watched_and_stopped_all_the_same(
    monkeypatch: pytest.MonkeyPatch, nothing_left: dict[str, str]
) -> None:
    def refuse(_: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refuse)  # as an old kernel does, or a sandbox
    process = await start_process(*python("input()"), ENV, None)
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.watch)
            await wait_all_tasks_blocked()
            assert not process.exited.is_set()
            await process.stdin.send_all(b"\n")
            await process.exited.wait()
    assert process.returncode == 0
    await run_to_end(process)


async def test_a_process_that_survives_sigkill_is_left_behind_and_trio_goes_on(
    monkeypatch: pytest.MonkeyPatch, nothing_left: dict[str, str]
) -> None:
    """One that hangs in the kernel. Its pidfd is given back while a task still waits for it."""
    process = await start_process(
        *python("import os, time; print(os.getpid(), flush=True); time.sleep(60)"), ENV, None
    )
    with trio.fail_after(LIMIT):
        pid = int(await process.stdout.receive_some())
        with monkeypatch.context() as patch:
            # Nothing that a test can do makes the kernel slow to carry out a signal.
            patch.setattr(signal, "pidfd_send_signal", lambda *_: None, raising=False)
            patch.setattr(os, "killpg", lambda *_: None)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(process.watch)
                await wait_all_tasks_blocked()
                await process.stop(0.01, ProcessLimits(term_grace=0.01, kill_grace=0.01))
                nursery.cancel_scope.cancel()
        await process.stdout.aclose()
        await process.stderr.aclose()
        os.kill(pid, signal.SIGKILL)
        await trio.to_thread.run_sync(os.waitpid, pid, 0)


# --- through the transport: errors for users


async def start_error(server: Server) -> ServerStartError:
    with trio.fail_after(LIMIT), pytest.raises(ServerStartError) as caught:
        await StdioTransport.start(server, Heard().handlers)
    return caught.value


async def test_a_failed_start_names_the_server_and_the_redacted_command() -> None:
    error = await start_error(
        Server("time", command="/nowhere/server", args=("--token", "s3cret-s3cret"), env=ENV)
    )
    assert str(error) == "server \"time\" did not start: the command '/nowhere/server' does not exist"
    assert error.command == ("/nowhere/server", "--token", "***")
    assert (error.returncode, error.stderr_tail) == (None, "")
    assert "s3cret" not in "".join(error.__notes__)
    assert isinstance(error.__cause__, FileNotFoundError)


@pytest.mark.table("env", [None, {}, {"HOME": "/"}])
async def test_an_environment_without_path_is_named_as_the_likely_cause(env: dict[str, str] | None) -> None:
    hint = "the server's environment has no PATH; default_environment() is a start"
    assert str(await start_error(Server("time", command="no-such-server", env=env))).endswith(hint)
    assert hint not in str(await start_error(Server("time", command="no-such-server", env=ENV)))


async def test_no_descriptors_left_to_open_is_a_start_error_and_leaks_none(nothing_left: dict[str, str]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(open_descriptors())
    errors = []
    with ExitStack() as fillers:
        while (filler := os.open(os.devnull, os.O_RDONLY)) < highest:
            fillers.callback(os.close, filler)
        os.close(filler)
        for spare in range(12):  # each place where a start needs one more
            resource.setrlimit(resource.RLIMIT_NOFILE, (filler + spare, hard))
            try:
                errors.append(str(await start_error(Server("time", command="/nowhere/server", env=ENV))))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "Too many open files" in errors[0]
    assert "does not exist" in errors[-1], "the last round has descriptors enough"


async def test_a_cancel_during_the_start_waits_for_it_and_gives_the_process_to_its_keeper(
    monkeypatch: pytest.MonkeyPatch, nothing_left: dict[str, str]
) -> None:
    """The new program may run already: only who gets the `Process` can end it."""
    spawn, begun, may_go_on = subprocess.Popen, trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def slow_spawn(*args: Any, **options: Any) -> Any:
        token.run_sync_soon(begun.set)
        may_go_on.wait(LIMIT)
        return spawn(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", slow_spawn)
    started: list[Process] = []
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:

            async def start() -> None:
                started.append(await start_process(*python("input()"), ENV, None))

            nursery.start_soon(start)
            await begun.wait()
            nursery.cancel_scope.cancel()
            may_go_on.set()
        await run_to_end(started[0])


async def test_a_start_in_a_cancelled_scope_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, nothing_left: dict[str, str]
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with trio.fail_after(LIMIT), trio.CancelScope() as scope:
        scope.cancel()
        await start_process(*python("input()"), ENV, None)
    assert scope.cancelled_caught


async def test_a_start_does_not_wait_for_trios_worker_threads(nothing_left: dict[str, str]) -> None:
    """A program that keeps the default limiter busy could otherwise start no server."""
    limiter = trio.to_thread.current_default_thread_limiter()
    before, limiter.total_tokens = limiter.total_tokens, 1
    try:
        async with limiter:
            with trio.fail_after(LIMIT):
                process = await start_process(*python("pass"), ENV, None)
        await run_to_end(process)
    finally:
        limiter.total_tokens = before
