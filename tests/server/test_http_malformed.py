"""Malformed input of every kind over HTTP: never a 500, never a hang, and the next client is served as ever.

The server is a process of its own, and the clients are plain sockets: what they send need not be HTTP.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.exposing import META
from trio_mcp import ServerLimits
from trio_mcp.server.features.table import FEATURES
from trio_mcp.server.http.asgi import Refusal
from trio_mcp.server.http.body import read_post

#: Seconds for one answer: far above what any takes, since a hang takes longer.
PATIENCE = 20
MAX_ODD_JSON = ServerLimits().max_odd_json

PROGRAM = """
import trio
from functools import partial
from trio_mcp import Context, ServerLimits, ToolServer, raw_tool, serve_http, tool

@tool
async def echo(text: str = "", context: Context = None) -> str:
    await context.progress(1)
    return text

schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
server = ToolServer("s")
server.add_tools(echo, raw_tool("routed", "r", schema, lambda arguments: arguments.decode("utf-8", "replace")))

# So long a connection is kept whose client has closed.
limits = ServerLimits(connection_idle=0.2, max_body=100_000)

async def main():
    async with trio.open_nursery() as nursery:
        print(await nursery.start(partial(serve_http, server, port=0, limits=limits)), flush=True)

trio.run(main)
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline().split(":")[2].split("/")[0])
    finally:
        server.terminate()
        _, said = server.communicate()
    assert said == ""  # nothing went wrong inside


def exchange(port: int, data: bytes, *, half: bool = False) -> bytes:
    """All that the server says to these bytes, until it closes; `half` leaves our end open."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        said = b""
        try:
            client.sendall(data)
            if not half:
                with suppress(OSError):  # it is closed already
                    client.shutdown(socket.SHUT_WR)
            while chunk := client.recv(65536):
                said += chunk
        except ConnectionError:
            pass  # refused before we had said everything
        return said


def request(body: bytes = b"", *fields: str, method: str = "POST", target: str = "/mcp") -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        *("Host: localhost", "Connection: close", "Content-Type: application/json"),
        *(f"Content-Length: {len(body)}", *fields),
    ]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


def status_of(said: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d{3})", said)
    assert found, said[:200]
    return int(found[1])


def is_well(port: int) -> None:
    """Whether the next client is served."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}).encode()
    said = exchange(port, request(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"), half=True)
    assert status_of(said) == 200


MODERN = ("MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo")
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "_meta": META}}


def call(**members: Any) -> bytes:
    return json.dumps({**CALL, **members}).encode()


BODIES: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "text": b'"text"',
    "a number": b"1",
    "null": b"null",
    "an array": b"[]",
    "an array of rubbish": b"[1, null, {}]",
    "an object without anything": b"{}",
    "NUL": b"\x00",
    "a byte order mark": b"\xef\xbb\xbf" + b"{}",
    "no UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}',
    "UTF-16": '{"id":1}'.encode("utf-16"),
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
    "nested too deeply": b"[" * 50_000 + b"]" * 50_000,
    "params nested too deeply": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":'
    + b"[" * 40_000
    + b"]" * 40_000
    + b"}}",
    "two objects": b"{}{}",
    "trailing rubbish": call() + b"x",
    "no version": json.dumps({"id": 1, "method": "ping"}).encode(),
    "another version": call(jsonrpc="1.0"),
    "id null": call(id=None),
    "id true": call(id=True),
    "id 1.5": call(id=1.5),
    "id an object": call(id={}),
    "id beyond all bounds": b'{"jsonrpc":"2.0","id":' + b"9" * 400 + b',"method":"ping"}',
    "id longer than Python reads": b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
    "id a lone surrogate": b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    "method a number": call(method=1),
    "method missing": b'{"jsonrpc":"2.0","id":1}',
    "method endless": call(method="x" * 50_000),
    "method a lone surrogate": b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    "params a list": call(params=[1]),
    "params a text": call(params="x"),
    "_meta a list": call(params={"_meta": []}),
    "name a number": call(params={"name": 1, "_meta": META}),
    "name a lone surrogate": call(params={"name": "\ud800", "_meta": META}),
    "arguments a list": call(params={"name": "echo", "arguments": [], "_meta": META}),
    "arguments of another type": call(params={"name": "echo", "arguments": {"text": 1}, "_meta": META}),
    "a progress token beyond all bounds": call(
        params={"name": "echo", "_meta": {**META, "progressToken": 10**400}}
    ),
    "a progress token that is none": call(params={"name": "echo", "_meta": {**META, "progressToken": {}}}),
    "a log level that is none": call(
        params={"name": "echo", "_meta": {**META, "io.modelcontextprotocol/logLevel": 7}}
    ),
    "a state that is none": call(params={"name": "echo", "requestState": "x.y", "_meta": META}),
    "a state of another type": call(params={"name": "echo", "requestState": 1, "_meta": META}),
    "responses of another type": call(params={"name": "echo", "inputResponses": 7, "_meta": META}),
    "client info of another type": call(
        params={"name": "echo", "_meta": {**META, "io.modelcontextprotocol/clientInfo": 1}}
    ),
    "both an answer and a request": call(result={}),
    "an answer to nothing": b'{"jsonrpc":"2.0","id":1,"result":{}}',
    "an error to nothing": b'{"jsonrpc":"2.0","id":1,"error":{}}',
    "initialize without anything": b'{"jsonrpc":"2.0","id":1,"method":"initialize"}',
    "initialize of odd types": b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":[],'
    b'"capabilities":1,"clientInfo":[]}}',
    "too long": b" " * 200_000,
}


@pytest.mark.slow
@pytest.mark.table(
    "fields", [(), MODERN, ("MCP-Protocol-Version: 2025-11-25",)], ids=["plain", "modern", "legacy"]
)
@pytest.mark.table("name", BODIES)
def test_a_body_that_is_wrong_costs_itself_alone(port: int, name: str, fields: tuple[str, ...]) -> None:
    status = status_of(exchange(port, request(BODIES[name], *fields), half=True))
    assert status == 200 or 400 <= status < 500
    is_well(port)


@pytest.mark.table(
    ("name", "code", "id_"),
    [
        ("no JSON", -32700, None),
        ("nothing", -32700, None),
        ("nested too deeply", -32700, None),
        ("an array", -32600, None),
        ("text", -32600, None),
        ("an object without anything", -32600, None),
        ("no version", -32600, 1),
        ("another version", -32600, 1),
        ("id null", -32600, None),
        ("id 1.5", -32600, None),
        ("method a number", -32600, 1),
        ("method missing", -32600, 1),
        ("params a list", -32602, 1),
        ("both an answer and a request", -32600, 1),
        ("an answer to nothing", -32600, None),
    ],
)
def test_a_body_that_is_no_message_is_told_so(port: int, name: str, code: int, id_: int | None) -> None:
    said = exchange(port, request(BODIES[name], *MODERN[:2]), half=True)
    answer = json.loads(said.partition(b"\r\n\r\n")[2])
    assert (status_of(said), answer["error"]["code"], answer.get("id")) == (400, code, id_)


@pytest.mark.slow
@pytest.mark.parametrize("end", [b"NaN", b'"\\ud800"', b"{", b"]}}x"])
def test_what_is_odd_and_long_is_refused_before_it_holds_up_everybody(end: bytes) -> None:
    """What msgspec does not read takes Python fifty times as long."""
    message = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[%b%b]}}'
    assert read_post(message % (b"{}," * 10 * MAX_ODD_JSON, b"{}"), FEATURES)[0][0].id == 1
    for text in (message, b"[%b]" % message):
        began = time.monotonic()
        with pytest.raises(Refusal) as caught:
            read_post(text % (b"{}," * 3 * MAX_ODD_JSON, end), FEATURES)
        assert caught.value.status == 400
        assert time.monotonic() - began < 1


def test_a_long_message_of_a_wrong_shape_is_no_request() -> None:
    long = " " * MAX_ODD_JSON
    for message in ({"id": True, "method": "x"}, {"id": 1, "method": 5}, [1], [{"id": True, "method": "x"}]):
        with pytest.raises(Refusal) as caught:
            read_post((json.dumps(message) + long).encode(), FEATURES)
        assert b"-32600" in caught.value.body
    with pytest.raises(Refusal) as caught:
        read_post(json.dumps({**CALL, "params": []}).encode() + long.encode(), FEATURES)
    assert b"-32602" in caught.value.body


REQUESTS: dict[str, bytes] = {
    "nothing": b"",
    "half a head": b"POST /mcp HTTP/1.1\r\nHost: loc",
    "half a body": request(b"{}", "Content-Length: 100").replace(b"Content-Length: 2\r\n", b""),
    "no HTTP": b"hello\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + b"\x00" * 160,
    "HTTP/0.9": b"GET /mcp\r\n\r\n",
    "HTTP/1.0": b"POST /mcp HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/2 by prior knowledge": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 50,
    "h2c": request(b"", "Upgrade: h2c", "HTTP2-Settings: AAA", method="GET"),
    "h2c with settings that are none": request(
        b"", "Upgrade: h2c", "HTTP2-Settings: AAUAAAAA", method="GET"
    ).replace(b"Content-Length: 0\r\n", b""),
    "a web socket": request(b"", "Upgrade: websocket", "Sec-WebSocket-Version: 13", method="GET"),
    "no Host": b"POST /mcp HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    "two Hosts": request(b"{}", "Host: localhost"),
    "1,000 header lines": request(b"{}", *(f"X-{number}: {number}" for number in range(1000))),
    "1,000 header lines that we read": request(b"{}", *(f"Mcp-Param-Region: {number}" for number in range(1000))),
    "10,000 header lines": request(b"{}", *(f"X-{number}: {number}" for number in range(10_000))),
    "an endless header": request(b"{}", "X: " + "x" * 200_000),
    "an endless target": request(b"{}", target="/" + "x" * 200_000),
    "a header without a colon": request(b"{}", "oops"),
    "a header with a NUL": request(b"{}", "X: \x00"),
    "a header that is no ASCII": request(b"{}", "Mcp-Name: grün"),
    "an odd length": request(b"{}", "Content-Length: two"),
    "a negative length": request(b"{}", "Content-Length: -2"),
    "two lengths": request(b"{}", "Content-Length: 3"),
    "a length of odd digits": request(b"{}", "Content-Length: \u0662"),
    "odd chunks": request(b"zz\r\n", "Transfer-Encoding: chunked").replace(b"Content-Length: 4\r\n", b""),
    "both a length and chunks": request(b"0\r\n\r\n", "Transfer-Encoding: chunked"),
    "a compressed body": request(b"\x1f\x8b\x08", "Content-Encoding: gzip"),
    "two at once": request(b"{}").replace(b"Connection: close\r\n", b"") + request(b"{}"),
    "another method": request(method="TRACE"),
    "a method of odd letters": request(method="PÖST"),
    "a whole URL": request(b"{}", target="http://localhost/mcp"),
    "an asterisk": request(method="OPTIONS", target="*"),
    "an odd path": request(b"{}", target="/%00%ff%2e%2e/mcp"),
    "no path": request(b"{}", target=""),
    "an odd media type": request(b"{}").replace(b"application/json", b"\xff;;"),
    "an odd Accept": request(b"{}", "Accept: ;;;,,,\x80"),
    "an odd session": request(b"{}", "Mcp-Session-Id: \xff"),
    "GET of an odd session": request(b"", "Mcp-Session-Id: " + "x" * 9000, method="GET"),
    "expecting to go on": request(b"{}", "Expect: 100-continue"),
}


@pytest.mark.table("name", REQUESTS)
def test_a_request_that_is_wrong_costs_itself_alone(port: int, name: str) -> None:
    said = exchange(port, REQUESTS[name])
    assert not re.search(rb"HTTP/1\.[01] 5\d\d", said), said[:200]
    is_well(port)


texts = st.text(max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
near_misses = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": values,
        "method": st.sampled_from(["tools/call", "tools/list", "initialize", "ping", "subscriptions/listen"])
        | values,
        "params": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["echo", "routed"]) | values,
                "arguments": values | st.fixed_dictionaries({}, optional={"text": values, "region": values}),
                "_meta": st.just(META)
                | st.fixed_dictionaries(
                    {key: st.just(value) for key, value in META.items()}, optional={"progressToken": values}
                )
                | values,
                "cursor": values,
                "requestState": values,
                "inputResponses": values,
                "protocolVersion": st.just("2025-11-25") | values,
                "notifications": values,
            },
        )
        | values,
        "result": values,
        "error": values,
    },
)
bodies = st.binary(max_size=200) | (near_misses | values).map(lambda value: json.dumps(value).encode())
headers = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region", "Mcp-Session-Id"),
                *("Accept", "Content-Type", "Origin", "Last-Event-ID", "X"),
            ]
        ),
        st.sampled_from(["2026-07-28", "2025-11-25", "tools/call", "tools/list", "echo", "routed", "=?base64?x?="])
        | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30),
    ),
    max_size=6,
)
thrown = settings(
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@thrown
@given(body=bodies, fields=headers)
def test_whatever_is_posted_is_answered_and_never_with_500(
    port: int, body: bytes, fields: list[tuple[str, str]]
) -> None:
    said = exchange(port, request(body, *(f"{name}: {value}" for name, value in fields), "Connection: close"))
    assert not re.search(rb"HTTP/1\.[01] 5\d\d", said), said[:300]


@thrown
@given(data=st.binary(max_size=300) | st.binary(max_size=50).map(lambda data: request(b"{}")[:40] + data))
def test_whatever_bytes_come_end_the_connection_and_no_more(port: int, data: bytes) -> None:
    said = exchange(port, data)
    assert not re.search(rb"HTTP/1\.[01] 5\d\d", said), said[:300]


def test_after_all_that_the_next_client_is_served(port: int) -> None:
    is_well(port)
