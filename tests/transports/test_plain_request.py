"""`plain_request` against h11: what is written by hand is what h11 would read, and nothing is let through."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.http.requests import STAND_INS, plain_request

HOST = (b"Host", b"localhost")

#: Mostly legal, with all that could break out of a line.
PIECES = st.binary(max_size=6) | st.sampled_from(
    [
        b"a",
        b"A-b",
        b"x y",
        b"a:",
        b"\r\n",
        b"\n",
        b"\0",
        b" a",
        b"a ",
        b"\t",
        b"\xff",
        b"",
        b"host",
        b"TE",
        b"Connection",
    ]
)
FIELDS = st.lists(st.tuples(PIECES, PIECES), max_size=4)


@given(
    method=st.sampled_from([*STAND_INS, "HEAD", "A B"]),
    target=st.just(b"/") | PIECES,
    fields=FIELDS,
    body=st.binary(max_size=20),
    length=st.integers(0, 3),
)
def test_whatever_is_written_is_read_by_h11_as_the_one_request_that_was_meant(
    method: str, target: bytes, fields: list[tuple[bytes, bytes]], body: bytes, length: int
) -> None:
    framing = (b"Content-Length", b"%d" % (len(body) if length else 7))
    fields = [HOST, *fields, framing]
    written = plain_request(method, target, fields, body)
    if written is None:
        return
    server = h11.Connection(h11.SERVER)
    server.receive_data(written)
    request = server.next_event()
    assert isinstance(request, h11.Request)
    assert (request.method, request.target) == (method.encode(), target)
    assert list(request.headers.raw_items()) == fields
    received = b""
    while isinstance(event := server.next_event(), h11.Data):
        received += event.data
    assert isinstance(event, h11.EndOfMessage)
    assert received == body
    assert server.trailing_data == (b"", False)
    # h11 would have written the same.
    client = h11.Connection(h11.CLIENT)
    head = client.send(h11.Request(method=method, target=target, headers=fields))
    assert written == (head or b"") + body


@pytest.mark.table(
    ("fields", "body"),
    [
        ([HOST, (b"a", b"b\r\nc: d")], b""),
        ([HOST, (b"a: b\r\nc", b"d")], b""),
        ([HOST, (b"a", b"b\nc")], b""),
        ([HOST, (b"a", b"b\0")], b""),
        ([HOST, (b"a", b" b")], b""),
        ([HOST, (b"a b", b"c")], b""),
        ([HOST, (b"a:", b"c")], b""),
        ([HOST, (b"", b"c")], b""),
        ([HOST, (b"Connection", b"close")], b""),
        ([HOST, (b"TRANSFER-encoding", b"chunked")], b"2\r\n{}\r\n0\r\n\r\n"),
        ([HOST, (b"Expect", b"100-continue")], b""),
        ([HOST, (b"Upgrade", b"h2c")], b""),
        ([HOST], b"{}"),
        ([HOST, (b"Content-Length", b"3")], b"{}"),
        ([HOST, (b"Content-Length", b"02")], b"{}"),
        ([HOST, (b"Content-Length", b"2"), (b"content-length", b"2")], b"{}"),
        ([HOST, (b"host", b"elsewhere")], b""),
        ([(b"a", b"b"), HOST], b""),
        ([], b""),
    ],
)
def test_what_is_odd_is_left_to_h11(fields: list[tuple[bytes, bytes]], body: bytes) -> None:
    assert plain_request("POST", b"/", fields, body) is None


@pytest.mark.table(
    ("method", "target"), [("HEAD", b"/"), ("post", b"/"), ("GET", b"/ HTTP/1.1\r\n"), ("GET", b"")]
)
def test_so_are_other_methods_and_targets(method: str, target: bytes) -> None:
    assert plain_request(method, target, [HOST], b"") is None
