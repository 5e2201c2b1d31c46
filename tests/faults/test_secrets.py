"""Fault 41 as far as processes go: what is secret is in no repr, no error, no note and no log line."""

from __future__ import annotations

import logging
import traceback

import pytest
import trio

from tests.peers import environment, peer, program, raw
from trio_mcp import Server, ServerStartError, ServerStoppedError, open_connection

SECRETS = ("hunter2-in-the-environment", "hunter3-after-an-option", "hunter4-with-an-equals-sign")
ENV, AFTER, EQUALS = SECRETS

#: Says everything that it was given, everywhere.
TELLTALE = """
import os, sys
secrets = " ".join([os.environ["API_KEY"], *sys.argv])
sys.stderr.write(f"cannot log in: {secrets}\\n")
sys.stdout.write(f"cannot log in: {secrets}\\n")
sys.stdout.flush()
sys.exit(1)
"""


def telltale(source: str = TELLTALE) -> Server:
    given = {**environment(), "API_KEY": ENV}
    return program(source, "--token", AFTER, f"--password={EQUALS}", name="telltale", env=given)


def leaks(*texts: str) -> list[str]:
    return [secret for secret in SECRETS for text in texts if secret in text]


def logged(caplog: pytest.LogCaptureFixture) -> str:
    formatter = logging.Formatter()
    return "\n".join(formatter.format(record) for record in caplog.records)


async def test_a_server_that_does_not_start_gives_nothing_away(caplog: pytest.LogCaptureFixture) -> None:
    server = telltale()
    with trio.fail_after(10):
        with pytest.raises(ServerStartError) as caught:
            async with open_connection(server):
                raise AssertionError("it opened")
    error = caught.value
    told = "".join(traceback.format_exception(error))
    assert "cannot log in: *** " in told
    assert "cannot log in" in logged(caplog)  # the skipped line
    assert leaks(repr(server), str(error), repr(error), told, *error.command, *error.junk, logged(caplog)) == []
    assert leaks(error.stderr_tail)  # raw, and said so


@pytest.mark.parametrize("command", ["/no/such/hunter", "sh\0"])
async def test_a_command_that_does_not_exist_gives_nothing_away(command: str) -> None:
    given = {"API_KEY": ENV}
    server = Server("x", command=command, args=["--token", AFTER, f"--password={EQUALS}"], env=given)
    with trio.fail_after(10):
        with pytest.raises(ServerStartError) as caught:
            async with open_connection(server):
                raise AssertionError("it opened")
    assert leaks(str(caught.value), "".join(traceback.format_exception(caught.value))) == []


async def test_a_server_that_is_lost_gives_nothing_away(caplog: pytest.LogCaptureFixture) -> None:
    given = {**environment(), "API_KEY": ENV}
    with trio.fail_after(10):
        async with open_connection(peer(env=given)) as connection:
            junk = f"cannot log in with {ENV}\n"
            message = (
                '{"jsonrpc":"2.0","method":"notifications/message","params":'
                '{"level":"error","logger":"login","data":{"key":"' + ENV + '"}}}\n'
            )
            await connection.call_tool("say", raw(junk + message))
            with pytest.raises(ServerStoppedError) as caught:
                await connection.call_tool("exit", {"status": 1, "moan": junk})
            told = "".join(traceback.format_exception(caught.value))
            assert "cannot log in with ***" in told
            assert "login" in logged(caplog)
            assert leaks(repr(connection), repr(connection.tools), str(caught.value), told, logged(caplog)) == []


@pytest.mark.slow
async def test_a_start_timeout_gives_nothing_away(caplog: pytest.LogCaptureFixture) -> None:
    given = {**environment(), "API_KEY": ENV}
    server = peer(env=given, start_timeout=0.4, start_delay=3600, moan=f"cannot log in with {ENV}\n", banner=ENV)
    with trio.fail_after(10):
        with pytest.raises(ServerStartError) as caught:
            async with open_connection(server):
                raise AssertionError("it opened")
    assert leaks("".join(traceback.format_exception(caught.value)), logged(caplog)) == []
