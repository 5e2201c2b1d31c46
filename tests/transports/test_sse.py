"""EventBuffer: what browsers understand, whatever the chunks."""

from __future__ import annotations

from itertools import pairwise

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.transports.streamable import sse
from trio_mcp.transports.streamable.sse import EventBuffer

STREAM = (
    b"\xef\xbb\xbf: hello\n\nid: 1\nretry: 500\ndata:\n\n"
    b"event: message\ndata: one\ndata:  two\n\ndata: gr\xc3\xbcn \xe2\x80\xa8 \xc2\x85 \x0b\x0c\nid: 2\n\n"
    b":\n:\n\n\nevent: ping\ndata: {}\n\ndata: cut off\n"
)
EVENTS = [
    ("message", ""),
    ("message", "one\n two"),
    ("message", "grün \u2028 \x85 \x0b\x0c"),
    ("ping", "{}"),
]


def read(chunks: list[bytes], **options: int) -> list[tuple[str, str]]:
    buffer = EventBuffer(**options)  # type: ignore[arg-type]
    return [(event.event, event.data) for chunk in chunks for event in buffer.feed(chunk)]


@pytest.mark.table("end", [b"\n", b"\r\n", b"\r"])
def test_each_kind_of_line_end_is_one(end: bytes) -> None:
    assert read([STREAM.replace(b"\n", end)]) == EVENTS


@pytest.mark.table("end", [b"\n", b"\r\n", b"\r"])
def test_a_stream_may_come_byte_by_byte(end: bytes) -> None:
    stream = STREAM.replace(b"\n", end)
    assert read([stream[at : at + 1] for at in range(len(stream))]) == EVENTS


@given(st.lists(st.integers(0, 3 * len(STREAM)), max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_a_stream_may_be_cut_anywhere(cuts: list[int], end: bytes) -> None:
    stream = STREAM.replace(b"\n", end)
    at = [0, *sorted(cuts), len(stream)]
    assert read([stream[start:stop] for start, stop in pairwise(at)]) == EVENTS


def test_a_carriage_return_at_the_end_of_a_chunk_ends_the_event_at_once() -> None:
    buffer = EventBuffer()
    assert [event.data for event in buffer.feed(b"data: now\r\n\r")] == ["now"]
    assert [event.data for event in buffer.feed(b"\ndata: then\r\r")] == ["then"]


def test_ids_and_the_retry_of_events_without_data_are_kept() -> None:
    buffer = EventBuffer(last_event_id="0")
    assert buffer.last_event_id == "0"
    buffer.feed(b"id: 7\nretry: 1500\ndata:\n\n")
    assert (buffer.last_event_id, buffer.retry) == ("7", 1.5)
    buffer.feed(b"data: x\n\n")
    assert (buffer.last_event_id, buffer.retry) == ("7", 1.5)
    buffer.feed(b"id: 8\ndata: never finished\n")
    assert buffer.last_event_id == "7"


def test_many_events_of_one_chunk_are_read_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading takes a response of httpx: thousands of them would hold up every other task."""
    readings: list[object] = []
    monkeypatch.setattr(sse, "EventSource", lambda response: readings.append(response) or EventSource(response))
    buffer = EventBuffer()
    assert len(buffer.feed(b"id: 1\ndata: x\n\n" * 5000 + b"id: 2\ndata: y\n\n")) == 5001
    assert len(readings) == 1
    assert (buffer.last_event_id, buffer.events) == ("2", 5001)


@pytest.mark.table("value", ["soon", "-5", "", "1.5", "9" * 5000])
def test_a_retry_that_is_no_number_is_none(value: str) -> None:
    buffer = EventBuffer()
    buffer.feed(f"retry: {value}\ndata: x\n\n".encode())
    assert buffer.retry is None


def test_bytes_that_are_no_utf_8_cost_themselves() -> None:
    assert read([b"data: a\xffb\n\ndata: c\n\n"]) == [("message", "a\ufffdb"), ("message", "c")]


def test_an_event_over_the_maximum_ends_it_and_what_came_before_is_given_out() -> None:
    buffer = EventBuffer(100)
    events = buffer.feed(b"data: small\n\ndata: " + b"x" * 200 + b"\n\ndata: late\n\n")
    assert [event.data for event in events] == ["small"]
    assert buffer.overflowed
    assert buffer.feed(b"data: later\n\n") == []


def test_the_maximum_counts_one_event_over_its_chunks() -> None:
    buffer = EventBuffer(100)
    for _ in range(50):
        assert len(buffer.feed(b"data: " + b"x" * 40)) + len(buffer.feed(b"\n\n")) == 1
    for _ in range(3):
        buffer.feed(b"data: " + b"x" * 40 + b"\n")
    assert buffer.overflowed


def test_a_stream_kept_alive_by_comments_alone_collects_nothing() -> None:
    buffer = EventBuffer(100)
    for _ in range(200):
        assert buffer.feed(b":\r\n") == []
    assert not buffer.overflowed
    assert [event.data for event in buffer.feed(b"data: x\r\n\r\n")] == ["x"]


@pytest.mark.parametrize("flood", [b"\n", b":\n\n", b": a\n:b\r\n\r\n"])
def test_a_flood_of_nothing_is_not_read_event_by_event(monkeypatch: pytest.MonkeyPatch, flood: bytes) -> None:
    reading = []

    def counted(response: httpx.Response) -> EventSource:
        reading.append(response)
        return EventSource(response)

    monkeypatch.setattr(sse, "EventSource", counted)
    buffer = EventBuffer()
    assert buffer.feed(flood * 1000) == []
    assert [event.data for event in buffer.feed(b": c\ndata: x\n\n")] == ["x"]
    assert len(reading) == 1


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_give_events_or_nothing(chunks: list[bytes]) -> None:
    read(chunks, maximum=60)
