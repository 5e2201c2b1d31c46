"""EventBuffer gives what httpx-sse reads from the whole body, however the body is cut, and at once.

httpx-sse is the reference, and no dependency of the library. It is asked event by event, because it does one thing
otherwise: after an event with an id it gives out one more for every blank line.
"""

from __future__ import annotations

import re
from itertools import combinations_with_replacement, pairwise

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.protocol.sse import EventBuffer, ServerSentEvent

MARK = b"\xef\xbb\xbf"
LINE_END = re.compile(rb"\r\n|\r|\n")

#: What has come of a body: type and data of each event, the last id, and the seconds of the last retry.
Seen = tuple[list[tuple[str, str]], str | None, float | None]


def expected(body: bytes) -> Seen:
    """What httpx-sse reads from the whole events of a body."""
    *lines, _ = LINE_END.split(body.removeprefix(MARK))
    events: list[tuple[str, str]] = []
    last_event_id = retry = None
    block: list[bytes] = []
    for line in lines:
        block.append(line)
        if line:
            continue
        headers = {"Content-Type": "text/event-stream"}
        response = httpx.Response(200, headers=headers, content=b"\n".join(block) + b"\n")
        for event in EventSource(response).iter_sse():
            events.append((event.event, event.data))
            last_event_id = event.id or last_event_id
            retry = event.retry / 1000 if event.retry is not None and event.retry >= 0 else retry
        block.clear()
    return events, last_event_id, retry


def read(chunks: list[bytes], maximum: int = 1000) -> Seen:
    """What EventBuffer gives."""
    buffer = EventBuffer(maximum)
    events = [event for chunk in chunks for event in buffer.feed(chunk)]
    assert buffer.events == len(events)
    assert not buffer.overflowed
    return shown(events), buffer.last_event_id, buffer.retry


def shown(events: list[ServerSentEvent]) -> list[tuple[str, str]]:
    return [(event.event, event.data.decode("utf-8", "replace")) for event in events]


BODIES = {
    "fields": b"event: ping\nid: 7\nretry: 500\ndata: one\ndata:two\n\ndata: x\n\n",
    "comments": b": hello\n\n:\n:\n\nid: 1\ndata: a\n: between\ndata: b\n\n:\n\n:x\n\n",
    "byte order mark": MARK + b"data: a\n\n" + MARK + b"data: no field\n\ndata: " + MARK + b"\n\n",
    "half of a mark": MARK[:2] + b"data: a\n\ndata: b\n\n",
    "blank lines": b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n",
    "ids": b"id: 1\n\nid\ndata: a\n\nid: 2\x00\ndata: b\n\nid: 3\nid: \xff\n\nid: 4\nid:\ndata:\n\nid: never\n",
    "retries": b"retry: soon\ndata: a\n\nretry: 0\n\nretry: 1_0\n\nretry: -5\ndata\n\nretry: 1.5\nretry: +7 \n\n",
    "retries of other digits": "retry: ٣\nretry:\n\nretry: 40\nretry: x\n\nretry\n\n".encode(),
    "data": b"data\n\ndata:\n\ndata:  two spaces\ndata: \n\ndata\ndata\ndata: :\n\ndata: cut off\n",
    "names": b"event:\ndata: a\n\nevent: b\nevent: c\ndata: a\n\nevent: d\n\nevent\n\ndata: e\n\n",
    "no fields": b"foo: bar\n\nfoo\n\ndata : a\n\n data: a\n\nDATA: a\n\ndatab\n\ndata2: a\n\nevents: a\n\n",
    "no line ends": "data: \u2028\u2029\x85\x0b\x0c\x1c\nid: \u2028\n\n".encode(),
    "no UTF-8": b"data: a\xffb\xe2\x80\ndata: \xf0\x9f\x98\n\nevent: \xc3\ndata: \xed\xa0\x80\n\n",
    "cut characters": "data: é€😀\n\ndata: ü漢\n\n".encode(),
    "nothing": b"",
}
ENDS = (b"\n", b"\r\n", b"\r")
STREAMS = [
    *(
        pytest.param(body.replace(b"\n", end), id=f"{name}, {end!r}")
        for name, body in BODIES.items()
        for end in ENDS
    ),
    pytest.param(b"data: a\r\n\rdata: b\n\r\n\rdata: c\r\r\n\ndata: d\n\ndata: e\r\ndata: f\n\r", id="mixed ends"),
]


@pytest.mark.parametrize("body", STREAMS)
def test_every_prefix_of_a_body_gives_at_once_what_the_reference_reads_from_it(body: bytes) -> None:
    """Whole, and byte by byte. An event is there with the last byte of its blank line: a return is one."""
    buffer = EventBuffer()
    events: list[tuple[str, str]] = []
    for at in range(len(body) + 1):
        events += shown([*buffer.feed(body[at - 1 : at] if at else b"")])
        assert (events, buffer.last_event_id, buffer.retry) == expected(body[:at]), body[:at]
        assert read([body[:at]]) == expected(body[:at]), body[:at]


@pytest.mark.parametrize("body", STREAMS)
def test_a_body_cut_at_any_two_places_gives_the_same(body: bytes) -> None:
    whole = expected(body)
    for first, second in combinations_with_replacement(range(len(body) + 1), 2):
        assert read([body[:first], body[first:second], body[second:]]) == whole, (first, second)


@given(
    st.lists(
        st.sampled_from(
            [
                b"data",
                b"id",
                b"event",
                b"retry",
                b":",
                b" ",
                b"7",
                b"\0",
                b"\xff",
                b"x",
                MARK,
                b"\n",
                b"\r",
                b"\n\n",
            ]
        ),
        max_size=30,
    ),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_any_fields_cut_anywhere_give_what_the_reference_reads(tokens: list[bytes], cuts: list[int]) -> None:
    body = b"".join(tokens)
    at = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]
    assert read([body[start:stop] for start, stop in pairwise(at)]) == expected(body)


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_give_events_or_nothing(chunks: list[bytes]) -> None:
    assert read(chunks, maximum=10_000) == expected(b"".join(chunks))


def test_a_carriage_return_at_the_end_of_a_chunk_ends_the_event_at_once() -> None:
    buffer = EventBuffer()
    assert [event.data for event in buffer.feed(b"data: now\r\n\r")] == [b"now"]
    assert [event.data for event in buffer.feed(b"\ndata: then\r\r")] == [b"then"]


def test_the_id_and_the_retry_of_an_earlier_stream_are_kept_until_others_come() -> None:
    buffer = EventBuffer(last_event_id="0", retry=1.0)
    buffer.feed(b"data: x\n\n")
    assert (buffer.last_event_id, buffer.retry) == ("0", 1.0)
    buffer.feed(b"id: 8\nretry: 5\ndata: never finished\n")
    assert (buffer.last_event_id, buffer.retry) == ("0", 1.0)


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_retry_that_no_float_holds_is_none(digits: int) -> None:
    buffer = EventBuffer()
    buffer.feed(b"retry: " + b"9" * digits + b"\ndata: x\n\n")
    assert buffer.retry is None


# --- the cap


def test_an_event_over_the_maximum_overflows_and_what_came_before_is_given_out_however_it_is_cut() -> None:
    body = b"data: small\n\ndata: " + b"x" * 20 + b"\ndata: " + b"x" * 20 + b"\n\ndata: late\n\n"
    for first, second in combinations_with_replacement(range(len(body) + 1), 2):
        buffer = EventBuffer(40)
        chunks = (body[:first], body[first:second], body[second:])
        assert [event.data for chunk in chunks for event in buffer.feed(chunk)] == [b"small"]
        assert buffer.overflowed
        assert buffer.feed(b"\n\ndata: later\n\n") == []


@pytest.mark.parametrize("line", [b"data: xx", b"data:xxx", b"data\ndata", b": a note", b"id: 3456"])
def test_an_event_of_exactly_the_maximum_is_given_out_however_it_is_cut(line: bytes) -> None:
    body = b"data: a\n" + line + b"\n\n"
    for cut in range(len(body)):
        buffer = EventBuffer(15)
        assert len(buffer.feed(body[:cut]) + buffer.feed(body[cut:])) == 1
        assert not buffer.overflowed


def test_the_maximum_counts_one_event_over_its_chunks() -> None:
    buffer = EventBuffer(100)
    for _ in range(50):
        assert len(buffer.feed(b"data: " + b"x" * 40)) + len(buffer.feed(b"\n\n")) == 1
    for _ in range(3):
        buffer.feed(b"data: " + b"x" * 40 + b"\n")
    assert buffer.overflowed


@pytest.mark.parametrize("line", [b"data", b"data: ", b"comment without an end"])
def test_many_short_or_endless_lines_reach_the_maximum_too(line: bytes) -> None:
    buffer = EventBuffer(1000)
    for _ in range(1000):
        assert buffer.feed(line + b"\n" * (line[:4] == b"data")) == []
    assert buffer.overflowed


@pytest.mark.parametrize("flood", [b":\r\n", b"\n", b": a\n:b\r\n\r\n", b"unknown: field\n"])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_stream_kept_alive_by_nothing_but_comments_collects_nothing(flood: bytes, size: int) -> None:
    buffer = EventBuffer(30)
    stream = flood * 200 + b"data: x\n\n"
    events = [event for at in range(0, len(stream), size) for event in buffer.feed(stream[at : at + size])]
    assert [event.data for event in events] == [b"x"]
    assert not buffer.overflowed
