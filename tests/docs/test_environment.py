"""docs/environment.md: each row of its table is held by a test here."""

from __future__ import annotations

import json
import ssl
import sys
from pathlib import Path

import httpx
import pytest
import trio
import trustme

from tests.cli.command_line import ENVIRONMENT, SERVER, config, run
from tests.cli.test_terminal import run_in_terminal
from tests.http_peer import HttpPeer
from tests.peers import program
from tests.raw_http import listen
from trio_mcp import Server, ServerStartError, default_environment, load_servers, open_connection
from trio_mcp.http.pool import Http1Transport
from trio_mcp.transports.streamable.proxy import way_to

PAGE = Path(__file__).parents[2] / "docs" / "environment.md"
#: The first cell of each row, and the tests that hold it.
HELD = {
    "`PATH`": "test_a_command_is_looked_up_on_the_path_of_the_server_else_on_ours",
    "`HOME`, `LOGNAME`, `SHELL`, `TERM`, `USER`": "test_home_and_the_like_are_copied_and_not_read",
    "every other variable": "test_a_server_gets_no_variable_that_its_env_does_not_have",
    "`${VAR}`": "test_references_are_replaced_in_files_and_headers",
    "`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`": "test_proxies_are_those_of_the_environment",
    "`SSL_CERT_FILE`, `SSL_CERT_DIR`": "test_certificates_of_the_environment_are_trusted",
    "`LANG`, `LC_ALL`": "test_the_locale_changes_no_byte_of_json",
    "`NO_COLOR`, `FORCE_COLOR`": "test_a_pipe_has_no_colours_whatever_is_forced",
    "`COLUMNS`": "test_columns_is_the_width_of_the_table",
    "`PYTHONPATH`, `PYTHONIOENCODING` and the like": "test_a_server_gets_no_variable_that_its_env_does_not_have",
    "`TRIO_MCP_SIGNING_KEY`": "test_a_signing_key_that_is_too_short_is_refused",
    "`TRIO_MCP_GATEWAY`": "test_a_gateway_does_not_start_itself",
}
#: Answers the handshake; its one tool tells its environment.
TELLS = """
import json, os, sys
for line in sys.stdin:
    found = json.loads(line)
    about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
    text = {"content": [{"type": "text", "text": json.dumps(sorted(os.environ))}]}
    results = {"initialize": about, "tools/list": {"tools": []}, "tools/call": text}
    if "id" in found:
        print(json.dumps({"jsonrpc": "2.0", "id": found["id"], "result": results[found["method"]]}), flush=True)
"""


def test_each_row_of_the_page_is_held_by_a_test() -> None:
    rows = [line.split(" | ")[0].removeprefix("| ") for line in PAGE.read_text().splitlines() if line[:2] == "| "]
    assert rows[1:] == list(HELD)
    assert all(name in globals() for name in HELD.values())


async def test_a_command_is_looked_up_on_the_path_of_the_server_else_on_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "a-tool-of-tests"
    command.write_text(f"#!{sys.executable} -IS\n{TELLS}")
    command.chmod(0o755)
    for own, ours in (({"PATH": str(tmp_path)}, "/nowhere"), ({}, str(tmp_path))):
        monkeypatch.setenv("PATH", ours)
        async with open_connection(Server("x", command=command.name, env=own, protocol="legacy")):
            pass
    with pytest.raises(ServerStartError, match="is not on the server's PATH"):
        async with open_connection(Server("x", command=command.name, env={"PATH": "/nowhere"})):
            pass


async def test_home_and_the_like_are_copied_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "tool"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    for name in ("HOME", "LOGNAME", "SHELL", "TERM", "USER"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("API_KEY", "x")
    copied = default_environment()
    assert {*copied, "PATH"} == {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
    assert copied["HOME"] == str(tmp_path)
    with pytest.raises(ServerStartError, match="'~/tool' does not exist"):
        async with open_connection(Server("x", command="~/tool", env=copied)):
            pass


async def test_a_server_gets_no_variable_that_its_env_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "PYTHONIOENCODING", "LANG", "HTTPS_PROXY", "API_KEY"):
        monkeypatch.setenv(name, "x")
    with trio.fail_after(10):
        async with open_connection(program(TELLS, env={"ONLY": "this"}, protocol="legacy")) as connection:
            found = json.loads((await connection.call_tool("tell")).content)
    assert set(found) <= {"ONLY", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}  # Python and macOS set the other two


def test_references_are_replaced_in_files_and_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = config(tmp_path, x={"command": "${A_TOOL}", "env": {"KEY": "${A_KEY}"}})
    monkeypatch.setenv("A_TOOL", "tool")
    monkeypatch.delenv("A_KEY", raising=False)
    (warning,) = load_servers(file).warnings
    assert "the environment variable A_KEY is not set" in warning
    monkeypatch.setenv("A_KEY", "value")
    (server,) = load_servers(file).servers
    assert (server.command, (server.env or {})["KEY"]) == ("tool", "value")
    done = run("list", "--url", "http://127.0.0.1:1/", "--header", "X-Key: ${NO_SUCH_VARIABLE}")
    assert "the environment variable NO_SUCH_VARIABLE is not set" in done.stderr


@pytest.mark.parametrize(
    ("variables", "url", "has_proxy"),
    [
        ({}, "http://example.com", False),
        ({"HTTP_PROXY": "http://proxy:1"}, "http://example.com", True),
        ({"HTTP_PROXY": "http://proxy:1"}, "https://example.com", False),
        ({"HTTPS_PROXY": "proxy:1"}, "https://example.com", True),
        ({"ALL_PROXY": "http://proxy:1"}, "https://example.com", True),
        ({"ALL_PROXY": "http://proxy:1", "NO_PROXY": "example.com"}, "https://example.com", False),
        ({"HTTP_PROXY": "http://proxy:1", "http_proxy": ""}, "http://example.com", False),
    ],
    ids=str,
)
def test_proxies_are_those_of_the_environment(
    variables: dict[str, str], url: str, has_proxy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    transport = way_to(httpx.URL(url), ssl.create_default_context()).transport
    assert isinstance(transport, httpx.AsyncHTTPTransport if has_proxy else Http1Transport)


async def test_certificates_of_the_environment_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            peer = HttpPeer("modern")
            peer.listener = await listen(nursery, peer.serve, context)
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            async with open_connection(peer.server()) as connection:
                assert connection.tools
            monkeypatch.delenv("SSL_CERT_FILE")
            with pytest.raises(ServerStartError, match="TLS failed"):
                async with open_connection(peer.server()):
                    pass
            nursery.cancel_scope.cancel()


def in_locale(*arguments: str) -> bytes:
    plain = {**ENVIRONMENT, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    return run("call", "echo", *arguments, "--", *SERVER, env=plain).stdout.encode()


@pytest.mark.slow
def test_the_locale_changes_no_byte_of_json() -> None:
    arguments = json.dumps({"text": "é 名"})
    assert json.loads(in_locale(arguments, "--json"))["content"][0]["text"] == "é 名"
    assert in_locale(arguments) == rb"\xe9 \u540d" + b"\n"


@pytest.mark.slow
def test_a_pipe_has_no_colours_whatever_is_forced() -> None:
    plain = run("list", "--", *SERVER).stdout
    forced = {name: value for name, value in ENVIRONMENT.items() if name != "NO_COLOR"} | {"FORCE_COLOR": "1"}
    assert run("list", "--", *SERVER, env=forced).stdout == plain
    assert "\x1b" not in plain


@pytest.mark.slow
def test_columns_is_the_width_of_the_table() -> None:
    _, shown = run_in_terminal("list", columns=100, COLUMNS="60")
    assert max(len(line.rstrip()) for line in shown.splitlines() if "\x1b" not in line) <= 60


def test_a_signing_key_that_is_too_short_is_refused() -> None:
    done = run(
        "serve", "trio_mcp.demo:server", "--http", "0", env={**ENVIRONMENT, "TRIO_MCP_SIGNING_KEY": "short"}
    )
    assert (done.returncode, "TRIO_MCP_SIGNING_KEY: expected at least 16 bytes" in done.stderr) == (2, True)


def test_a_gateway_does_not_start_itself(tmp_path: Path) -> None:
    file = config(tmp_path, x={"command": "tool"})
    done = run("gateway", "--config", file, env={**ENVIRONMENT, "TRIO_MCP_GATEWAY": str(Path(file).resolve())})
    assert (done.returncode, "would start itself without end" in done.stderr) == (2, True)
