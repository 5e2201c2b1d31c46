"""`Server`: every rule about its fields, kept at construction."""

from __future__ import annotations

import copy
import math
import os
import pickle
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from trio_mcp.errors import InvalidServerError
from trio_mcp.models.server import Server, check_headers, default_environment

URL = "https://example.com/mcp"


def stdio(**fields: Any) -> Server:
    return Server("time", command="mcp-server-time", **fields)


def http(**fields: Any) -> Server:
    return Server("time", url=URL, **fields)


def refusal(make: Any, *args: Any, **fields: Any) -> InvalidServerError:
    with pytest.raises(InvalidServerError) as caught:
        make(*args, **fields)
    error = caught.value
    assert isinstance(error, ValueError)
    assert str(error) == f"{error.field}: {error.reason}"
    return error


# --- what is given is what is there


def test_a_stdio_server_has_the_promised_defaults() -> None:
    server = Server("time", command="mcp-server-time")
    assert attrs.asdict(server) == {
        "name": "time",
        "command": "mcp-server-time",
        "args": (),
        "env": None,
        "cwd": None,
        "stop_timeout": 5.0,
        "start_timeout": 60.0,
        "url": None,
        "bearer_token": None,
        "headers": None,
        "auth": None,
        "http_transport": None,
        "ssl_context": None,
        "tools": None,
        "protocol": "auto",
    }


def test_sequences_become_tuples_and_mappings_are_copied() -> None:
    args, env, tools = ["-v"], {"A": "1"}, ["one", "two"]
    server = stdio(args=args, env=env, tools=tools)
    args.append("-x")
    env["B"] = "2"
    tools.append("three")
    assert (server.args, server.env, server.tools) == (("-v",), {"A": "1"}, ("one", "two"))


def test_no_tools_at_all_is_not_the_same_as_no_filter() -> None:
    assert stdio(tools=()).tools == ()
    assert stdio().tools is None


def test_a_set_of_tools_will_do() -> None:
    assert stdio(tools={"one"}).tools == ("one",)


def test_paths_become_text() -> None:
    server = Server("x", command=Path("/bin/cat"), args=[Path("/a"), "b"], cwd=Path("/tmp"))
    assert (server.command, server.args, server.cwd) == ("/bin/cat", ("/a", "b"), "/tmp")


def test_a_server_is_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        stdio().name = "other"  # type: ignore[misc]


def test_everything_but_the_name_is_given_by_keyword() -> None:
    with pytest.raises(TypeError):
        Server("time", "mcp-server-time")  # type: ignore[call-arg]


def test_equal_servers_are_equal_and_hash_alike() -> None:
    one, two = stdio(args=["-v"], env={"A": "1"}), stdio(args=("-v",), env={"A": "1"})
    assert one == two
    assert hash(one) == hash(two)
    assert one != stdio(args=["-v"], env={"A": "2"})
    assert len({one, two, http(headers={"X-A": "1"}), http()}) == 3


def test_a_looked_at_redactor_changes_neither_equality_nor_copies() -> None:
    looked_at, other = stdio(env={"TOKEN": "hunter2hunter2"}), stdio(env={"TOKEN": "hunter2hunter2"})
    assert looked_at.redactor("hunter2hunter2") == "***"
    assert looked_at == other
    for copied in (copy.deepcopy(looked_at), pickle.loads(pickle.dumps(looked_at))):
        assert copied == other
        assert copied.redactor("hunter2hunter2") == "***"
    assert attrs.evolve(looked_at, env={"TOKEN": "abcdefgh"}).redactor("abcdefgh") == "***"


# --- each field alone


class TextLike(str):
    """Text all the same."""


@pytest.mark.table("name", ["a", "A-1", "-", "0", "x" * 32, TextLike("time")])
def test_legal_names(name: str) -> None:
    assert Server(name, command="c").name == name


@pytest.mark.table("name", ["", "x" * 33, "a_b", "a b", "a.b", "é", "a\n", "٣", None, 5, b"a"])
def test_other_names_are_refused(name: Any) -> None:
    assert refusal(Server, name, command="c").field == "name"


@pytest.mark.table(
    ("field", "value"),
    [
        ("args", "-v"),
        ("args", b"-v"),
        ("args", 5),
        ("args", None),
        ("args", {"-v": 1}),
        ("args", {"-v"}),
        ("args", [1]),
        ("args", [None]),
        ("args", [b"-v"]),
        ("env", [("A", "1")]),
        ("env", "A=1"),
        ("env", {"A": 1}),
        ("env", {"A": None}),
        ("env", {1: "A"}),
        ("env", {b"A": "1"}),
        ("env", {"": "1"}),
        ("env", {"A=B": "1"}),
        ("cwd", 5),
        ("cwd", b"/tmp"),
        ("cwd", ""),
        ("tools", "echo"),
        ("tools", b"echo"),
        ("tools", 5),
        ("tools", [1]),
        ("tools", {"echo": True}),
        ("protocol", None),
        ("protocol", 2025),
        ("protocol", ""),
        ("protocol", "latest"),
        ("protocol", "2025-11-26"),
        *[
            (field, value)
            for field in ("stop_timeout", "start_timeout")
            for value in (-1, -0.5, math.nan, -math.inf, "5", True, 10**400)
        ],
        ("stop_timeout", None),
    ],
)
def test_a_wrong_value_names_its_field(field: str, value: Any) -> None:
    assert refusal(stdio, **{field: value}).field == field


@pytest.mark.table("command", [5, b"cat", ["cat", "-v"], ""])
def test_a_command_is_text(command: Any) -> None:
    assert refusal(Server, "x", command=command).field == "command"


@pytest.mark.table("seconds", [0, 0.25, 5, math.inf])
def test_timeouts_from_zero_upwards_are_fine(seconds: float) -> None:
    server = stdio(stop_timeout=seconds, start_timeout=seconds)
    assert (server.stop_timeout, server.start_timeout) == (seconds, seconds)


def test_the_start_may_be_without_bound() -> None:
    assert stdio(start_timeout=None).start_timeout is None


@pytest.mark.table(
    "protocol", ["auto", "modern", "legacy", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
)
def test_eras_and_known_revisions(protocol: str) -> None:
    assert stdio(protocol=protocol).protocol == protocol


def test_nul_bytes_are_left_to_the_start() -> None:
    server = stdio(args=["a\0b"], env={"A": "\0"}, cwd="/\0")
    assert server.args == ("a\0b",)


@pytest.mark.table(
    "url",
    [
        "ftp://example.com",
        "ws://example.com",
        "file:///tmp/x",
        "example.com/mcp",
        "//example.com/mcp",
        "/mcp",
        "http://",
        "http:example.com",
        "http://:80/",
        "http://[::1",
        "http://example.com:port/",
        "http://example.com:99999/",
        "http://exa mple.com/",
        "http://example.com/\n",
        "http://example.com/\ud800",
        "",
        5,
        b"http://example.com",
        httpx.URL(URL),
    ],
)
def test_urls_are_http_or_https_with_a_host(url: Any) -> None:
    assert refusal(Server, "x", url=url).field == "url"


@pytest.mark.table(
    "url", ["http://localhost", "HTTPS://EXAMPLE.COM/a?b=c", "http://[::1]:8000/mcp", "http://é.fr/"]
)
def test_other_urls_are_taken_as_they_are(url: str) -> None:
    assert Server("x", url=url).url == url


@pytest.mark.table("token", ["", "a b", "abc\n", "schlüssel", 5, b"abc"])
def test_a_bearer_token_is_visible_ascii(token: Any) -> None:
    error = refusal(http, bearer_token=token)
    assert error.field == "bearer_token"
    assert not token or str(token) not in str(error)


@pytest.mark.table(
    "headers",
    [
        "X-A: 1",
        [("X-A", "1")],
        5,
        {"X-A": 1},
        {"X-A": None},
        {"X-A": b"1"},
        {1: "1"},
        {"": "1"},
        {"X A": "1"},
        {"X-A\n": "1"},
        {"X-Ä": "1"},
        {"X-A": "1\r\nX-B: 2"},
        {"X-A": "\0"},
        {"X-A": "\ud800"},
    ],
)
def test_headers_are_a_mapping_of_text_that_http_can_carry(headers: Any) -> None:
    assert refusal(http, headers=headers).field == "headers"


@pytest.mark.table(
    "name",
    [
        "Content-Type",
        "accept",
        "ACCEPT",
        "MCP-Protocol-Version",
        "Mcp-Session-Id",
        "mcp-method",
        "Mcp-Name",
        "Mcp-Param-Region",
        "Last-Event-ID",
        "Content-Length",
        "Transfer-Encoding",
    ],
)
def test_the_protocols_own_headers_are_not_for_users(name: str) -> None:
    error = refusal(http, headers={name: "x"})
    assert error.field == "headers"
    assert name in error.reason


def test_other_headers_are_the_users() -> None:
    headers = {"X-Tenant": "a b\tc", "Accept-Language": "fr", "Host": "inner.example", "User-Agent": "é"}
    assert http(headers=headers).headers == headers
    assert http(headers=httpx.Headers({"X-A": "1"})).headers == {"x-a": "1"}


def test_a_callable_for_headers_is_kept_and_not_called() -> None:
    def headers() -> dict[str, str]:
        raise AssertionError("called at construction")

    assert http(headers=headers).headers is headers


@pytest.mark.table("auth", [("me", "pw"), "me:pw", 5, httpx.BasicAuth, object()])
def test_auth_is_an_httpx_auth(auth: Any) -> None:
    assert refusal(http, auth=auth).field == "auth"


@pytest.mark.table("transport", [httpx.AsyncClient, 5, object(), httpx.HTTPTransport])
def test_http_transport_is_an_asynchronous_one(transport: Any) -> None:
    assert refusal(http, http_transport=transport).field == "http_transport"


def test_auth_and_transport_are_taken_as_they_are() -> None:
    auth, transport = httpx.BasicAuth("me", "pw"), httpx.MockTransport(lambda request: httpx.Response(200))
    server = http(auth=auth, http_transport=transport)
    assert (server.auth, server.http_transport) == (auth, transport)


# --- fields together


def test_one_of_command_and_url_is_needed() -> None:
    assert refusal(Server, "x").field == "command"


def test_command_and_url_exclude_each_other() -> None:
    assert refusal(Server, "x", command="c", url=URL).field == "url"


@pytest.mark.table(
    ("field", "value"),
    [
        ("bearer_token", "t"),
        ("headers", {}),
        ("headers", dict),
        ("auth", httpx.BasicAuth("me", "pw")),
        ("http_transport", httpx.MockTransport(lambda request: httpx.Response(200))),
        ("ssl_context", ssl.create_default_context()),
    ],
)
def test_a_field_for_http_is_refused_on_a_stdio_server(field: str, value: Any) -> None:
    error = refusal(stdio, **{field: value})
    assert (error.field, error.reason) == (field, "is for HTTP servers only")


@pytest.mark.table(("field", "value"), [("args", ["-v"]), ("env", {}), ("cwd", "/tmp"), ("stop_timeout", 1.0)])
def test_a_field_for_stdio_is_refused_on_an_http_server(field: str, value: Any) -> None:
    error = refusal(http, **{field: value})
    assert (error.field, error.reason) == (field, "is for stdio servers only")


def test_an_ssl_context_is_for_https_and_for_our_own_transport() -> None:
    context = ssl.create_default_context()
    server = http(ssl_context=context)
    assert server.ssl_context is context
    assert server == http(ssl_context=context) != http(ssl_context=ssl.create_default_context())
    assert repr(server).endswith("ssl_context=<SSLContext>)")
    assert refusal(http, ssl_context="ca.pem").field == "ssl_context"
    assert refusal(http, ssl_context=ssl.SSLContext).field == "ssl_context"
    plain = refusal(Server, "x", url="http://127.0.0.1/mcp", ssl_context=context)
    assert plain.reason == "is for https URLs only"
    transport = httpx.MockTransport(lambda request: httpx.Response(200))
    assert (
        "given together with http_transport" in refusal(http, http_transport=transport, ssl_context=context).reason
    )


def test_fields_that_have_their_defaults_are_not_given() -> None:
    stdio(bearer_token=None, headers=None, auth=None, http_transport=None)
    http(args=[], env=None, cwd=None, stop_timeout=5, start_timeout=3, tools=["a"], protocol="modern")


@pytest.mark.table("name", ["Authorization", "authorization", "AUTHORIZATION"])
@pytest.mark.table("credentials", [{"bearer_token": "t"}, {"auth": httpx.BasicAuth("me", "pw")}])
def test_an_authorization_header_beside_other_credentials_is_refused(name: str, credentials: Any) -> None:
    error = refusal(http, headers={name: "Basic x"}, **credentials)
    assert error.field == "headers"
    assert http(headers={name: "Basic x"}).headers == {name: "Basic x"}


def test_bearer_token_and_auth_exclude_each_other() -> None:
    assert refusal(http, bearer_token="t", auth=httpx.BasicAuth("me", "pw")).field == "auth"


def test_what_a_callable_returned_is_checked_by_the_same_rules() -> None:
    assert check_headers({"Authorization": "x"}) == {"Authorization": "x"}
    assert refusal(check_headers, {"Authorization": "x"}, authorized=True).field == "headers"
    assert refusal(check_headers, None).field == "headers"
    assert refusal(check_headers, {"Accept": "x"}).field == "headers"


# --- the environment, and what this file must not load


def test_the_default_environment_is_the_safe_few_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("API_KEY", "abc")
    environment = default_environment()
    assert environment == {"PATH": "/bin", "HOME": "/home/me"}
    environment["X"] = "1"
    assert "X" not in os.environ


def test_models_load_neither_httpx_nor_cattrs() -> None:
    program = (
        "import sys, trio_mcp.models.server, trio_mcp.models.result, trio_mcp.models.tool, trio_mcp.tools.tool\n"
        "print([name for name in ('httpx', 'cattrs', 'importlib.metadata') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
