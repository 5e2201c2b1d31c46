"""`trio-mcp serve --http`: where it listens, how it ends, and what it says of an address that is none."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.cli.command_line import COMMAND, ENVIRONMENT, PATIENCE, run
from tests.depth import is_thorough
from tests.exposing import modern
from trio_mcp.cli import app

TARGET = "trio_mcp.demo:server"


@contextmanager
def served(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A command that serves, and its port."""
    process = subprocess.Popen(
        [*COMMAND, "serve", TARGET, *arguments],
        env={**ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith("note: trio-mcp-demo is served at http://"), said
            yield process, int(said.rpartition(":")[2].partition("/")[0])
        finally:
            process.kill()


def call(port: int, name: str, **more: Any) -> dict[str, Any]:
    """One call, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": modern(name=name, **more)})
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
    connection.request("POST", "/mcp", body, {**headers, "Content-Type": "application/json"})
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("address", ["0", "127.0.0.1:0", "localhost:0"])
def test_it_says_where_it_listens_and_serves_there(address: str) -> None:
    with served("--http", address) as (_, port):
        assert call(port, "echo", arguments={"text": "hi"})["result"]["content"][0]["text"] == "hi"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0_and_no_traceback(number: signal.Signals) -> None:
    with served("--http", "0") as (process, port):
        idle = socket.create_connection(("127.0.0.1", port))
        call(port, "echo", arguments={"text": "hi"})
        began = time.monotonic()
        process.send_signal(number)
        process.send_signal(number)
        assert process.wait(10) == 0
        assert time.monotonic() - began < 4
        idle.close()
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


@contextmanager
def running(port: int, seconds: float) -> Iterator[http.client.HTTPResponse]:
    """The answer to a slow call, of which nothing but the first progress has come: it runs for certain."""
    params = modern(name="slow", arguments={"seconds": seconds}, meta={"progressToken": 1})
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "slow"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("POST", "/mcp", body, {**headers, "Content-Type": "application/json"})
        with connection.getresponse() as answer:
            yield answer


@pytest.mark.slow
def test_a_call_that_is_done_in_time_is_answered_after_a_signal() -> None:
    with served("--http", "0") as (process, port), running(port, 1.5) as answer:
        process.send_signal(signal.SIGTERM)
        assert b"took 1.5 s" in answer.read()
        assert process.wait(10) == 0


@pytest.mark.slow
@pytest.mark.skipif(not is_thorough(), reason="takes the 8 s of the real grace: --hypothesis-profile=thorough")
def test_a_call_that_is_not_done_in_time_does_not_hold_up_the_end() -> None:
    with served("--http", "0") as (process, port), running(port, 30):
        process.send_signal(signal.SIGTERM)
        assert process.wait(12) == 0


@pytest.mark.slow
def test_processes_that_share_a_key_go_on_with_each_others_calls() -> None:
    meta: dict[str, Any] = {"clientCapabilities": {"elicitation": {}}}
    key = {"TRIO_MCP_SIGNING_KEY": "sixteen letters or more"}
    with served("--http", "0", **key) as (_, one), served("--http", "0", **key) as (_, two):
        with served("--http", "0") as (_, stranger):
            first = call(one, "ask", arguments={}, meta=meta)["result"]
            (question,) = first["inputRequests"]
            answer = {"action": "accept", "content": {"colour": "green"}}
            rest = {"inputResponses": {question: answer}, "requestState": first["requestState"]}
            last = call(two, "ask", arguments={}, meta=meta, **rest)
            assert last["result"]["content"][0]["text"] == "green, any shade"
            assert call(stranger, "ask", arguments={}, meta=meta, **rest)["error"]["code"] == -32602


@pytest.mark.parametrize(
    "address", ["", "x", "host:", ":80", "host:x", "70000", "1:2:x", "-1", "0" * 6 + "70000", "9" * 9999, "\u0662"]
)
def test_an_address_that_is_none_is_one_line_and_exit_code_2(
    address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["serve", TARGET, f"--http={address}"]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("trio-mcp: --http takes [HOST:]PORT, such as 8000 or 0.0.0.0:8000, got ")


@pytest.mark.parametrize(
    "command", [["serve", TARGET], ["gateway", "--config", "absent.json"]], ids=lambda it: it[0]
)
def test_an_address_for_the_network_takes_the_names_of_the_server(
    command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert app.run([*command, "--http", "0.0.0.0:0"]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("trio-mcp: --http 0.0.0.0:0: everybody in the network can call the tools there; ")
    assert "--allowed-host NAME" in err
    assert app.run([*command, "--http", "0.0.0.0:0", "--allowed-host", "http://x"]) == 2
    assert "--allowed-host: expected a host" in capfd.readouterr().err
    assert app.run([*command, "--allowed-host", "x.example"]) == 2
    assert "--allowed-host needs --http" in capfd.readouterr().err


@pytest.mark.slow
def test_the_names_that_are_allowed_are_served_and_no_others() -> None:
    names = ["--allowed-host", "a.example", "--allowed-host", "127.0.0.1"]
    with served("--http", "0.0.0.0:0", *names) as (_, port):
        assert call(port, "echo", arguments={"text": "hi"})["result"]["content"][0]["text"] == "hi"
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            connection.request("GET", "/mcp", headers={"Host": "b.example"})
            assert connection.getresponse().status == 403


def test_an_address_that_is_taken_is_one_line_and_exit_code_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", TARGET, "--http", str(port))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"trio-mcp: cannot listen on 127.0.0.1, port {port}: ")
    assert "in use" in done.stderr


def test_a_key_that_is_too_short_is_one_line_that_does_not_show_it() -> None:
    done = run("serve", TARGET, "--http", "0", env={**ENVIRONMENT, "TRIO_MCP_SIGNING_KEY": "too short"})
    complaint = "trio-mcp: TRIO_MCP_SIGNING_KEY: expected at least 16 bytes\n"
    assert (done.returncode, done.stderr) == (2, complaint)
