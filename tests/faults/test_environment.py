"""Variables of the environment that change how HTTP servers are reached: a wrong one is named."""

from __future__ import annotations

import errno
import os
import socket
from importlib.util import find_spec
from typing import NoReturn

import httpx
import pytest
import trio

from trio_mcp import InvalidServerError, Server, ServerStartError, open_connection
from trio_mcp.http.pool import Http1Transport

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("ALL_PROXY", "socks://user:hunter2@127.0.0.1:9", "unknown kind"),
        ("all_proxy", "gopher://127.0.0.1:9", "unknown kind"),
        ("HTTP_PROXY", "http://user:hunter2@127.0.0.1:port", "no URL of a proxy"),
        ("http_proxy", "http://127.0.0.1:99999999", "no URL of a proxy"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_told_with_its_variable_and_without_its_value(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(variable, value)
    with trio.fail_after(5), pytest.raises(InvalidServerError, match=reason) as caught:
        async with open_connection(Server("s", url="http://server.example/mcp")):
            raise AssertionError("it opened")
    assert caught.value.field == variable
    assert "hunter2" not in str(caught.value)


async def test_a_socks_proxy_without_the_package_for_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if find_spec("socksio") is not None:
        pytest.skip("the package is there")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with trio.fail_after(5), pytest.raises(InvalidServerError, match=r"^ALL_PROXY: .*httpx\[socks\]"):
        async with open_connection(Server("s", url="http://server.example/mcp")):
            raise AssertionError("it opened")


async def test_a_dead_proxy_is_named_where_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    monkeypatch.setenv("HTTP_PROXY", f"http://user:hunter2@127.0.0.1:{port}")
    with trio.fail_after(5), pytest.raises(ServerStartError) as caught:
        async with open_connection(Server("s", url="http://server.example/mcp")):
            raise AssertionError("it opened")
    assert f"the proxy 127.0.0.1:{port} that HTTP_PROXY names: cannot be reached" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "through a proxy"])
async def test_a_missing_file_of_certificates_is_named(monkeypatch: pytest.MonkeyPatch, proxied: bool) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/missing/authorities.pem")
    if proxied:
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/mcp"
        with trio.fail_after(5), pytest.raises((ServerStartError, InvalidServerError), match="SSL_CERT_FILE"):
            async with open_connection(Server("s", url=url)):
                raise AssertionError("it opened")


class NoDescriptors(Http1Transport):
    """This process has no descriptor left."""

    async def handle_async_request(self, request: httpx.Request) -> NoReturn:
        raise httpx.ConnectError(os.strerror(errno.EMFILE), request=request)


async def test_a_limit_of_this_process_is_told_as_its_own_and_nothing_stopped() -> None:
    server = Server("s", url="http://127.0.0.1:9/mcp", http_transport=NoDescriptors())
    with (
        trio.fail_after(5),
        pytest.raises(ServerStartError, match="this process has reached its own") as caught,
    ):
        async with open_connection(server):
            raise AssertionError("it opened")
    assert "stopped" not in str(caught.value)
