"""No secret of a `Server` in anything that is shown: its repr, errors about it, and refusals to make it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from trio_mcp.errors import InvalidServerError, ServerStartError
from trio_mcp.models.server import Server

URL = "https://example.com/mcp"


def stdio(**fields: Any) -> Server:
    return Server("time", command="mcp-server-time", **fields)


def http(**fields: Any) -> Server:
    return Server("time", url=URL, **fields)


SECRET = "hunter2-hunter2"


def everything_shown(server: Server) -> str:
    error = ServerStartError(
        server.name,
        f"printed {SECRET}",
        command=server.redacted_command,
        stderr_tail=f"could not log in with {SECRET}\n",
        redactor=server.redactor,
    )
    return "\n".join([repr(server), str(server), f"{server}", str(error), repr(error), *error.__notes__])


@pytest.mark.table(
    "server",
    [
        stdio(env={"API_KEY": SECRET}),
        stdio(args=["--token", SECRET]),
        stdio(args=[f"--password={SECRET}", "-v", SECRET]),
        stdio(args=[f"DB_PASSWORD={SECRET}"]),
        stdio(args=["--header", f"Authorization: Bearer {SECRET}"]),
        stdio(args=[f"https://me:{SECRET}@example.com/"]),
        stdio(args=[f"https://example.com/?api_key={SECRET}&page=1"]),
        stdio(env={"TOKEN": SECRET}, cwd=f"/home/{SECRET}", args=[f"--file={SECRET}"]),
        Server("x", command=f"/opt/{SECRET}/run", env={"SESSION_COOKIE": SECRET}),
        http(bearer_token=SECRET),
        http(headers={"X-Api-Key": SECRET}),
        http(headers={"Authorization": f"Bearer {SECRET}"}),
        http(headers={"Cookie": f"a=b; session={SECRET}"}),
        Server("x", url=f"https://me:{SECRET}@example.com/mcp"),
        Server("x", url=f"https://{SECRET}@example.com/mcp"),
        Server("x", url=f"https://example.com/mcp?access_token={SECRET}#part"),
    ],
)
def test_no_secret_is_shown_anywhere(server: Server) -> None:
    shown = everything_shown(server)
    assert SECRET not in shown
    assert "***" in shown


def test_an_environments_values_are_never_in_the_repr_whatever_their_names() -> None:
    assert repr(stdio(env={"HOME": "/home/me", "N": "1"})) == (
        "Server(name='time', command='mcp-server-time', env={'HOME': '***', 'N': '***'})"
    )


def test_header_values_are_never_in_the_repr_whatever_their_names() -> None:
    assert repr(http(headers={"X-Tenant": "acme"})) == (
        "Server(name='time', url='https://example.com/mcp', headers={'X-Tenant': '***'})"
    )


def test_the_repr_shows_a_url_without_userinfo_and_query() -> None:
    server = Server("x", url="https://me:pw@example.com:8443/mcp?a=b#c")
    assert repr(server) == "Server(name='x', url='https://example.com:8443/mcp')"


def test_objects_that_hold_credentials_are_shown_by_their_types() -> None:
    class Told(httpx.Auth):
        def __repr__(self) -> str:
            return SECRET

    def headers(key: str = SECRET) -> dict[str, str]:
        return {"X": key}

    transport = httpx.MockTransport(lambda request: httpx.Response(200))
    assert repr(http(auth=Told(), headers=headers, http_transport=transport)) == (
        "Server(name='time', url='https://example.com/mcp', "
        "headers=<function>, auth=<Told>, http_transport=<MockTransport>)"
    )


def test_the_repr_shows_only_what_was_given_with_secret_arguments_hidden() -> None:
    server = stdio(args=["--api-key", "abc", "-v"], tools=["a"], stop_timeout=1, protocol="legacy")
    assert repr(server) == (
        "Server(name='time', command='mcp-server-time', args=('--api-key', '***', '-v'), "
        "stop_timeout=1, tools=('a',), protocol='legacy')"
    )


def test_the_redacted_command_is_the_whole_command_line() -> None:
    assert stdio(args=["--token=abc", "x"]).redacted_command == ("mcp-server-time", "--token=***", "x")
    assert http().redacted_command == ()


@pytest.mark.table(
    "fields",
    [
        {"env": {"API_KEY": SECRET.encode()}},
        {"env": {"API_KEY=x": SECRET}},
        {"env": {f"API_KEY={SECRET}": "x"}},
        {"headers": {f"X-Key: {SECRET}": "x"}},
        {"headers": {"X-Key": SECRET + "\n"}},
        {"headers": {"X Key": SECRET}},
        {"bearer_token": SECRET + " "},
        {"url": f"ftp://me:{SECRET}@example.com"},
        {"url": f"http://me:{SECRET}@exa mple.com"},
        {"url": f"http://me:{SECRET}/mcp"},
        {"auth": ("me", SECRET)},
    ],
)
def test_a_refusal_shows_no_secret(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidServerError) as caught:
        Server("x", **({"url": URL} | fields if "env" not in fields else {"command": "c"} | fields))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or SECRET not in str(caught.value.__context__)
