"""Framing: the same lines come out however the bytes were cut, within a cap, in time linear in the bytes."""

from __future__ import annotations

import inspect
import sys
import tracemalloc
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.protocol.framing import MAX_LINE, LineBuffer

#: The line ends that Python, Node and Unicode know, and that are none here.
NO_LINE_ENDS = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\rh"


def lines_of(chunks: list[bytes], maximum: int = MAX_LINE) -> tuple[list[bytes], bool]:
    """Everything that comes out of these chunks, and whether the cap was passed."""
    buffer = LineBuffer(maximum)
    lines = [line for chunk in chunks for line in buffer.feed(chunk)]
    if (last := buffer.finish()) is not None:
        lines.append(last)
    return lines, buffer.overflowed


STREAMS = {
    "nothing": (b"", []),
    "one line": (b"one\n", [b"one"]),
    "two lines": (b"one\ntwo\n", [b"one", b"two"]),
    "a last line without its end": (b"one\ntwo", [b"one", b"two"]),
    "CRLF": (b"one\r\ntwo\r\n", [b"one", b"two"]),
    "CRLF and LF": (b"one\r\ntwo\nthree\r\n", [b"one", b"two", b"three"]),
    "one CR is stripped, not more": (b"one\r\r\n\rtwo\n", [b"one\r", b"\rtwo"]),
    "a CR alone ends nothing": (b"one\rtwo\n", [b"one\rtwo"]),
    "a last line that ends in CR": (b"one\r", [b"one"]),
    "empty lines": (b"\n\r\none\n\n", [b"", b"", b"one", b""]),
    "other line ends": (f"{NO_LINE_ENDS}\n".encode(), [NO_LINE_ENDS.encode()]),
    "characters of several bytes": ("é€😀\nß\n".encode(), ["é€😀".encode(), "ß".encode()]),
    "bytes that are no UTF-8": (b"\xff\xfe\n\x00\x80\n", [b"\xff\xfe", b"\x00\x80"]),
}


@pytest.mark.table(("stream", "lines"), STREAMS.values(), ids=STREAMS.keys())
def test_lines_do_not_depend_on_how_the_stream_is_cut(stream: bytes, lines: list[bytes]) -> None:
    """Faults 13, 14, 15. Whole, byte by byte, and cut in two at every place."""
    assert lines_of([stream]) == (lines, False)
    assert lines_of([stream[i : i + 1] for i in range(len(stream))]) == (lines, False)
    for place in range(len(stream) + 1):
        assert lines_of([stream[:place], stream[place:]]) == (lines, False)
        assert lines_of([stream[:place], b"", stream[place:]]) == (lines, False)


@given(
    st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"\r")), max_size=8),
    st.sampled_from([b"\n", b"\r\n"]),
    st.data(),
)
def test_any_lines_cut_anywhere_come_out_whole(lines: list[bytes], end: bytes, data: Any) -> None:
    stream = b"".join(line + end for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    expected = lines if end == b"\r\n" else [line.removesuffix(b"\r") for line in lines]
    assert lines_of(chunks) == (expected, False)


def test_a_line_is_given_out_as_soon_as_it_is_whole() -> None:
    buffer = LineBuffer()
    assert buffer.feed(b"one\ntwo\r") == [b"one"]
    assert buffer.feed(b"\n") == [b"two"]
    assert buffer.feed(b"thr") == []
    assert buffer.finish() == b"thr"
    assert buffer.finish() is None


@pytest.mark.parametrize("of", [bytes, bytearray])
def test_lines_are_bytes_whatever_the_chunks_are(of: Any) -> None:
    """trio's memory streams give bytearrays. A line does not change with its chunk."""
    buffer = LineBuffer()
    chunk = of(b"one\ntwo\nthr")
    lines = buffer.feed(chunk)
    if isinstance(chunk, bytearray):
        chunk[:] = b"x" * len(chunk)
    lines += buffer.feed(of(b"ee\n"))
    assert lines == [b"one", b"two", b"three"]
    assert {type(line) for line in lines} == {bytes}


@pytest.mark.table("size", [65535, 65536, 65537, 1024 * 1024])
def test_lines_around_the_size_of_a_pipe_come_out_whole(size: int) -> None:
    """Fault 12, as a server writes it and a pipe cuts it."""
    line = bytes(range(32, 127)) * (size // 95 + 1)
    stream = b"first\n" + line[:size] + b"\nlast\n"
    chunks = [stream[i : i + 65536] for i in range(0, len(stream), 65536)]
    assert lines_of(chunks) == ([b"first", line[:size], b"last"], False)


# --- the cap


@pytest.mark.table("end", [b"\n", b"\r\n", b""])
@pytest.mark.table("cut", [1, 3, 100])
def test_the_cap_counts_one_line_without_its_end(end: bytes, cut: int) -> None:
    def cut_up(stream: bytes) -> list[bytes]:
        return [stream[i : i + cut] for i in range(0, len(stream), cut)]

    within = b"1234567890" + end
    assert lines_of(cut_up(within), 10) == ([b"1234567890"], False)
    if end:
        assert lines_of(cut_up(within * 3), 10) == ([b"1234567890"] * 3, False)
    for length in (11, 12, 13, 50):
        lines, overflowed = lines_of(cut_up(b"short\n" + b"x" * length + end + b"after\n" * bool(end)), 10)
        assert lines == [b"short"]
        assert overflowed


@pytest.mark.table("chunk_size", [1, 7, 4096, 1 << 20])
def test_what_came_before_a_flood_is_given_out(chunk_size: int) -> None:
    """Fault 12: a line over the cap ends the connection; the good frame in the same chunk is delivered."""
    stream = b'{"id":1}\n{"id":2}\n' + b"x" * 20_000 + b'\n{"id":3}\n'
    chunks = [stream[i : i + chunk_size] for i in range(0, len(stream), chunk_size)]
    assert lines_of(chunks, 8_000) == ([b'{"id":1}', b'{"id":2}'], True)


def test_after_a_flood_nothing_is_kept() -> None:
    buffer = LineBuffer(10)
    assert buffer.feed(b"one\n" + b"x" * 12) == [b"one"]
    assert buffer.overflowed
    for _ in range(3):
        assert buffer.feed(b"y\nz\n") == []
    assert buffer.finish() is None


def test_a_flood_takes_no_memory() -> None:
    buffer = LineBuffer(1000)
    tracemalloc.start()
    for _ in range(1000):
        buffer.feed(b"x" * 10_000)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 50_000


def test_the_cap_stands_at_256_mebibytes() -> None:
    assert MAX_LINE == 256 * 1024 * 1024
    assert inspect.signature(LineBuffer).parameters["maximum"].default == MAX_LINE


# --- the work


class Work:
    """Counts the bytes that methods of bytes look through, and the joins, while it is entered."""

    SCANNING = frozenset(
        ["split", "rsplit", "splitlines", "partition", "find", "rfind", "index", "count", "replace", "decode"]
    )

    def __init__(self) -> None:
        self.scanned = 0
        self.joins = 0

    def __enter__(self) -> Work:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: Any, event: str, arg: Any) -> None:
        if event != "c_call":
            return
        owner = getattr(arg, "__self__", None)
        if isinstance(owner, bytes | bytearray) and arg.__name__ in self.SCANNING:
            self.scanned += len(owner)
        elif isinstance(owner, bytes | bytearray | BytesIO) and arg.__name__ in ("join", "getvalue"):
            self.joins += 1


@pytest.mark.parametrize("chunk_size", [16, 1024])
def test_each_byte_is_looked_through_once_and_joined_once(chunk_size: int) -> None:
    """Linear: a long line costs no more for coming in many chunks."""
    stream = (b"x" * 100_000 + b"\n") * 3
    chunks = [stream[i : i + chunk_size] for i in range(0, len(stream), chunk_size)]
    buffer = LineBuffer()
    lines = []
    with Work() as work:
        for chunk in chunks:
            lines += buffer.feed(chunk)
    assert lines == [b"x" * 100_000] * 3
    assert work.scanned == len(stream)
    assert work.joins == 3


def test_many_lines_in_one_chunk_cost_no_more_than_the_chunk() -> None:
    stream = b"line\n" * 50_000
    with Work() as work:
        lines = LineBuffer().feed(stream)
    assert len(lines) == 50_000
    assert work.scanned == len(stream)
    assert work.joins == 0
