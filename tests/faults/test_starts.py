"""Faults 4, 5 and 9: servers that never come up, openings that are given up, and what a server is given."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.peers import ERAS, open_descriptors, open_lives, peer
from trio_mcp import Server, ServerStartError, connect, default_environment, open_connection

AT_ONCE = 2.0
PROTOCOLS = ("auto", "modern", "legacy", "2025-06-18")


async def why_not(server: Server) -> ServerStartError:
    """The error of a server that does not come up."""
    with pytest.raises(ServerStartError) as caught:
        async with open_connection(server):
            raise AssertionError("it opened")
    return caught.value


# --- fault 4: an early exit looks like a timeout


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_early_exit_is_told_at_once_with_status_command_and_stderr(protocol: str) -> None:
    server = peer("weather", die=2, moan="missing API_KEY\n", protocol=protocol)
    with trio.fail_after(AT_ONCE):
        error = await why_not(server)
    assert str(error) == 'server "weather" did not start: exited with status 2'
    assert error.server == "weather"
    assert error.returncode == 2
    assert error.command == server.redacted_command
    assert error.stderr_tail == "missing API_KEY\n"
    told = "".join(traceback.format_exception(error))
    assert "missing API_KEY" in told
    assert sys.executable in told


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_server_killed_while_it_starts_is_told_with_the_signal(protocol: str) -> None:
    with trio.fail_after(AT_ONCE):
        error = await why_not(peer(die=-signal.SIGKILL, protocol=protocol))
    assert error.returncode == -signal.SIGKILL
    assert error.reason == "was killed by SIGKILL"


async def test_an_exit_with_status_0_before_the_handshake_is_a_start_error_too() -> None:
    with trio.fail_after(AT_ONCE):
        error = await why_not(peer(die=0))
    assert error.returncode == 0
    assert error.reason == "exited with status 0"


@pytest.mark.parametrize("era", ERAS)
async def test_an_exit_between_the_handshake_and_the_first_listing_is_a_start_error(era: str) -> None:
    source = "def page(cursor): write_all(2, b'no database\\n'); os._exit(7)\npeer.page = page"
    with trio.fail_after(AT_ONCE):
        error = await why_not(peer(era=era, source=source))
    assert error.returncode == 7
    assert error.stderr_tail == "no database\n"


async def test_the_last_lines_of_a_long_stderr_are_what_is_shown() -> None:
    source = "write_all(2, b'line\\n' * 20_000 + b'the reason\\n')"
    with trio.fail_after(AT_ONCE):
        error = await why_not(peer(die=1, source=source))
    assert error.stderr_tail.endswith("the reason\n")
    assert len(error.stderr_tail) <= 64 * 1024
    assert "the reason" in error.__notes__[-1]


@pytest.mark.slow
async def test_start_timeout_is_told_as_such_with_what_stderr_says() -> None:
    with trio.fail_after(10):
        began = trio.current_time()
        error = await why_not(peer(start_delay=3600, moan="downloading\n", start_timeout=0.5))
        assert 0.5 <= trio.current_time() - began < 0.5 + AT_ONCE
    assert error.reason == "it was not ready within 0.5 s (start_timeout)"
    assert error.returncode is None
    assert error.stderr_tail == "downloading\n"


# --- fault 5: a failed, timed-out or cancelled opening leaks


@pytest.mark.slow
async def test_50_openings_that_are_given_up_leave_no_process_and_no_descriptor() -> None:
    """Some by `start_timeout`, some cancelled inside, some cancelled in `connect`, all at different moments."""
    before = open_descriptors()

    async def time_out(seconds: float) -> None:
        with pytest.raises(ServerStartError, match="start_timeout"):
            async with open_connection(peer(start_timeout=seconds, **silent)):
                raise AssertionError("it opened")

    async def be_cancelled(seconds: float) -> None:
        with trio.move_on_after(seconds) as scope:
            async with open_connection(peer(**silent)):
                raise AssertionError("it opened")
        assert scope.cancelled_caught

    async def be_cancelled_in_connect(seconds: float) -> None:
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(seconds) as scope:
                await connect(nursery, peer(**silent))
            assert scope.cancelled_caught

    with trio.fail_after(30):
        async with open_lives() as lives:
            # It reads, and never answers.
            silent: dict[str, Any] = {
                "source": "peer.message = lambda message: None",
                "alive": lives.port,
                "stop_timeout": 10,
            }
            async with trio.open_nursery() as nursery:
                for index in range(50):
                    give_up = (time_out, be_cancelled, be_cancelled_in_connect)[index % 3]
                    nursery.start_soon(give_up, 0.02 * index)
            assert lives.starts["server"] > 10
            await lives.ended()
    assert open_descriptors() == before


@pytest.mark.parametrize(
    "server",
    [
        peer(die=1),
        peer(era="legacy", probe="exit", source="peer.initialize = lambda message: os._exit(1)"),
        peer(era="legacy", revision="1999-01-01"),
        peer(era="modern", pages={"": "nonsense"}),
        Server("x", command="/nonexistent"),
        Server("x", command=sys.executable, cwd="/nonexistent"),
    ],
    ids=["exits", "exits-twice", "no-common-revision", "no-listing", "no-command", "no-cwd"],
)
async def test_a_failed_opening_leaves_no_descriptor(server: Server) -> None:
    before = open_descriptors()
    with trio.fail_after(10):
        await why_not(server)
    assert open_descriptors() == before


# --- fault 9: surprises of the environment


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_gets_the_environment_that_it_is_given_and_nothing_else(era: str) -> None:
    given = {"PATH": "/nowhere", "LANG": "C.UTF-8", "A": "1 2\n3", "EMPTY": ""}
    with trio.fail_after(10):
        async with open_connection(peer(era=era, env=given, cwd="/")) as connection:
            facts = json.loads((await connection.call_tool("environment")).content)
    facts["env"].pop("LC_CTYPE", None)  # CPython sets it itself
    assert facts["env"] == given
    assert facts["cwd"] == "/"


async def test_without_env_a_server_gets_none() -> None:
    with trio.fail_after(10):
        async with open_connection(peer(env=None)) as connection:
            facts = json.loads((await connection.call_tool("environment")).content)
    assert set(facts["env"]) <= {"LC_CTYPE"}


async def test_a_server_inherits_no_descriptor_of_ours() -> None:
    """Even one that is inheritable, and those of other servers."""
    with trio.fail_after(10):
        inheritable = os.open(os.devnull, os.O_RDONLY)
        os.set_inheritable(inheritable, True)
        try:
            async with open_connection(peer("other")), open_connection(peer()) as connection:
                facts = json.loads((await connection.call_tool("environment")).content)
        finally:
            os.close(inheritable)
    assert len(facts["fds"]) == 4  # three streams, and the one that lists them
    assert facts["fds"][:3] == [0, 1, 2]


def script(folder: Path, text: str, mode: int = 0o755, name: str = "server") -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.slow
async def test_each_reason_not_to_start_has_words_of_its_own(tmp_path: Path) -> None:
    env = {"PATH": os.defpath}
    present = script(tmp_path, "#!/bin/sh\n", name="present")
    not_executable = script(tmp_path, "#!/bin/sh\n", 0o644, name="not-executable")
    servers: dict[str, dict[str, Any]] = {
        "'no-such-command' is not on the server's PATH": {"command": "no-such-command"},
        "'/no/such/command' does not exist": {"command": "/no/such/command"},
        "names does not exist: '/no/such/python'": {"command": script(tmp_path, "#!/no/such/python\n", name="a")},
        "the working directory '/no/such/cwd' does not exist": {"command": present, "cwd": "/no/such/cwd"},
        f"the working directory {present!r} is no directory": {"command": present, "cwd": present},
        f"{not_executable!r} is not executable: its file has no x bit": {"command": not_executable},
        "is not an executable format": {"command": script(tmp_path, "echo hello\n", name="c")},
        f"{str(tmp_path)!r} is a directory": {"command": str(tmp_path)},
        "cannot be passed on": {"command": present, "args": ("a\0b",)},
        "are too long": {"command": present, "args": ("x" * 3_000_000,)},
    }
    reasons = []
    for part, fields in servers.items():
        with trio.fail_after(10):
            error = await why_not(Server("x", env=env, **fields))
        assert part in str(error)
        assert "PATH; default_environment()" not in str(error)
        assert "\n" not in str(error)
        reasons.append(str(error))
    assert len(set(reasons)) == len(servers)


async def test_a_start_without_a_path_says_so_whatever_went_wrong(tmp_path: Path) -> None:
    env_needs_path = script(tmp_path, "#!/usr/bin/env no-such-interpreter\n")
    for server in (
        Server("x", command="no-such-command"),
        Server("x", command="no-such-command", env={"HOME": "/"}),
        Server("x", command=env_needs_path),
    ):
        with trio.fail_after(10):
            error = await why_not(server)
        assert "the server's environment has no PATH; default_environment() is a start" in str(error)


async def test_a_bare_command_is_looked_up_on_the_path_of_the_server_when_it_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("theirs", "ours"):
        (tmp_path / name).mkdir()
        script(tmp_path / name, f"#!/bin/sh\necho {name} >&2\nexit 1\n", name="server")
    monkeypatch.setenv("PATH", f"{tmp_path / 'ours'}:{os.environ['PATH']}")
    with trio.fail_after(10):
        env = {"PATH": str(tmp_path / "theirs")}
        assert (await why_not(Server("x", command="server", env=env))).stderr_tail == "theirs\n"
        assert (await why_not(Server("x", command="server"))).stderr_tail == "ours\n"
        env = {"PATH": str(tmp_path)}
        assert "is not on the server's PATH" in str(await why_not(Server("x", command="server", env=env)))


def test_the_default_environment_has_the_path_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2hunter2")
    assert default_environment()["PATH"] == os.environ["PATH"]
    assert "API_TOKEN" not in default_environment()
