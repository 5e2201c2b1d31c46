"""How a command ends when its output goes nowhere or a signal comes: no traceback, and the server gone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.command_line import COMMAND, ENVIRONMENT, PATIENCE, SERVER, run

pytestmark = [
    pytest.mark.slow,  # Python starts anew for each test
    pytest.mark.skipif(os.name != "posix", reason="stdio servers are POSIX only"),
]


def test_a_reader_that_has_seen_enough_causes_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run("list", "--", *SERVER, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_line_and_exit_code_2() -> None:
    with open("/dev/full", "w") as full:
        done = run("call", "echo", '{"text": "x"}', "--", *SERVER, stdout=full)
    assert (done.returncode, done.stderr) == (2, "trio-mcp: cannot write to stdout: No space left on device\n")


def test_a_closed_stdout_is_one_line_and_exit_code_2() -> None:
    command = [*COMMAND, "call", "echo", '{"text": "x"}', "--", *SERVER]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "trio-mcp: stdout is closed: redirect it to a file or a pipe\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_call_with_the_server_gone(number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        port = str(listener.getsockname()[1])
        with subprocess.Popen(
            [*COMMAND, "call", "hang", "--", *SERVER, "--alive", port],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            alive, _ = listener.accept()
            with alive:
                alive.settimeout(PATIENCE)
                assert alive.recv(6) == b"called"
                process.send_signal(number)
                out, err = process.communicate(timeout=PATIENCE)
                assert alive.recv(1) == b""  # the server's end is closed: it is gone
    assert (process.returncode, out, err) == (128 + number, "", "")


def test_a_signal_that_was_ignored_on_purpose_stays_ignored() -> None:
    """`nohup trio-mcp call ...` outlives the terminal."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        port = str(listener.getsockname()[1])
        command = [*COMMAND, "call", "hang", "--", *SERVER, "--alive", port]
        with subprocess.Popen(
            ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            alive, _ = listener.accept()
            with alive:
                alive.settimeout(PATIENCE)
                assert alive.recv(6) == b"called"
                process.send_signal(signal.SIGHUP)
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM


def test_without_stderr_nothing_said_there_lands_on_stdout() -> None:
    command = [*COMMAND, "call", "fail", "--json", "--", *SERVER]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["isError"] is True


def test_a_stdin_that_cannot_be_read_is_one_line_and_exit_code_2() -> None:
    with open(os.devnull, "w") as write_only:
        done = run("call", "echo", "-", "--", *SERVER, stdin=write_only)
    assert (done.returncode, done.stderr) == (2, "trio-mcp: cannot read stdin: Bad file descriptor\n")
