"""Faults 11 to 16: what a line is, and what becomes of those that are no messages."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import trio

from tests.peers import ERAS, peer, raw
from trio_mcp import ClientLimits, Connection, ProtocolError, ServerStartError, ServerStoppedError, open_connection
from trio_mcp.transports.limits import LineLimits

AT_ONCE = 2.0

JUNK = (
    "Starting server v1.2 …",
    '{"level":"info","msg":"a log line that is JSON"}',
    "{not json",
    "42",
    '"a string"',
    "null",
    "true",
    "[]",
    "[1,2]",
    "{}",
    '{"jsonrpc":"2.0"}',
    '{"jsonrpc":"2.0","id":null}',
    '{"jsonrpc":"2.0","id":true,"result":1}',
    '{"jsonrpc":"2.0","method":17}',
    "\x00\x01\x02",
    "\xff\xfe",
)


#: A cap on lines that a test can reach.
LOW_CAP = 100_000
LOW = LineLimits(max_line=LOW_CAP)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def said(connection: Connection, data: bytes | str, **more: Any) -> str:
    """The text of a call during which the server writes this, before its answer where that is its own."""
    return (await connection.call_tool("say", raw(data, **more))).content


def answer(text: str = "hello", **more: Any) -> str:
    """An answer to the call, as a line without its end."""
    members = "".join(f',"{key}":{value}' for key, value in more.items())
    return (
        '{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":"' + text + '"}]' + members + "}}"
    )


# --- fault 11: lines that are no JSON


@pytest.mark.parametrize("era", ERAS)
async def test_junk_before_the_handshake_and_later_is_skipped_counted_and_warned_of_once(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    junk = "\n".join(JUNK) + "\n"
    with trio.fail_after(10):
        async with open_connection(peer(era=era, banner=junk.replace("…", "..."))) as connection:
            assert connection.statistics().skipped_lines == len(JUNK)
            assert await said(connection, junk) == "said"
            assert connection.statistics().skipped_lines == 2 * len(JUNK)
    warnings = warnings_in(caplog)
    assert len(warnings) == 1
    assert warnings[0].startswith('server "peer": ')
    assert "Starting server v1.2" in warnings[0]


async def test_every_kind_of_junk_is_skipped() -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            for count, line in enumerate(JUNK, start=1):
                assert await said(connection, line + "\n") == "said", line
                assert connection.statistics().skipped_lines == count, line
                assert connection.statistics().late_answers == 0, line


async def test_empty_lines_are_skipped_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(10):
        async with open_connection(peer(banner="\n\r\n  \n")) as connection:
            assert await said(connection, "\n\n") == "said"
    assert warnings_in(caplog) == []


async def test_the_sample_in_the_warning_is_clipped_and_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            assert await said(connection, "a\rb" + "x" * 1_000_000 + "\n") == "said"
    [warning] = warnings_in(caplog)
    assert len(warning) < 400
    assert "\r" not in warning


@pytest.mark.parametrize("protocol", ["auto", "modern", "legacy"])
async def test_a_start_error_shows_the_junk_where_only_junk_came(protocol: str) -> None:
    server = peer(banner="usage: server [--stdio]\n" * 100, die=64, protocol=protocol)
    with trio.fail_after(10):
        with pytest.raises(ServerStartError) as caught:
            async with open_connection(server):
                raise AssertionError("it opened")
    assert "usage: server [--stdio]" in "\n".join(caught.value.__notes__)
    assert len("\n".join(caught.value.__notes__)) < 5_000
    assert "usage" not in str(caught.value)


# --- fault 12: limits and quadratic scans


@pytest.mark.parametrize("era", ERAS)
async def test_a_frame_of_any_size_is_delivered(era: str) -> None:
    with trio.fail_after(20):
        async with open_connection(peer(era=era)) as connection:
            for size in (65_535, 65_536, 65_537, 1 << 20):
                before = connection.statistics().bytes_in
                result = await connection.call_tool("huge", {"line": size})
                assert connection.statistics().bytes_in - before == size
                assert result.content == "x" * len(result.content)
                assert size - 200 < len(result.content) < size


@contextmanager
def bytes_scanned() -> Iterator[Callable[[], int]]:
    """Counts the bytes that methods of bytes and bytearray look at which look at all of them."""
    scanned = 0

    def look(frame: FrameType, event: str, function: Any) -> None:
        nonlocal scanned
        if event == "c_call" and function.__name__ in SCANNING:
            owner = function.__self__
            if isinstance(owner, bytes | bytearray):
                scanned += len(owner)

    previous = sys.getprofile()
    sys.setprofile(look)
    try:
        yield lambda: scanned
    finally:
        sys.setprofile(previous)


SCANNING = frozenset(
    {"split", "rsplit", "splitlines", "partition", "rpartition", "find", "rfind", "index", "count"}
)


@pytest.mark.slow
@pytest.mark.parametrize("size", [32 << 20, 64 << 20, 200 << 20], ids=["32 MiB", "64 MiB", "200 MiB"])
async def test_a_very_long_line_is_delivered_and_each_byte_of_it_is_scanned_once(size: int) -> None:
    with trio.fail_after(60):
        async with open_connection(peer()) as connection:
            with bytes_scanned() as scanned:
                result = await connection.call_tool("huge", {"line": size})
            assert size <= scanned() < 1.01 * size
            assert size - 200 < len(result.content) < size
            assert result.content.startswith("xxx")
            del result
            assert (await connection.call_tool("echo")).content == "{}"


async def test_a_line_of_exactly_the_cap_is_delivered_and_one_byte_more_is_not() -> None:
    with trio.fail_after(10):
        async with open_connection(peer(), limits=ClientLimits(lines=LOW)) as connection:
            await connection.call_tool("huge", {"line": LOW_CAP + 1})  # its end is no part of it
            with pytest.raises(ServerStoppedError) as caught:
                await connection.call_tool("huge", {"line": LOW_CAP + 2})
    assert caught.value.reason == f"sent a line over {LOW_CAP} bytes"


async def test_a_line_over_the_cap_in_pieces_ends_the_connection_before_its_end() -> None:
    """4 KiB at a time, and its newline never comes."""
    with trio.fail_after(10):
        async with open_connection(peer(), limits=ClientLimits(lines=LOW)) as connection:
            flood = raw(b"x" * (LOW_CAP + 4096), cut=4096, answer=False)
            began = trio.current_time()
            with pytest.raises(ServerStoppedError) as caught:
                await connection.call_tool("say", flood)
            assert trio.current_time() - began < AT_ONCE
            assert connection.error == caught.value
    assert caught.value.reason == f"sent a line over {LOW_CAP} bytes"


async def test_the_cap_counts_one_message_and_not_a_session() -> None:
    with trio.fail_after(10):
        async with open_connection(peer(), limits=ClientLimits(lines=LOW)) as connection:
            lines = (JUNK[0] + "x" * 50_000 + "\n") * 10
            assert await said(connection, lines) == "said"


@pytest.mark.slow
async def test_a_good_frame_before_the_flood_is_delivered() -> None:
    """Both in one write."""
    with trio.fail_after(10):
        async with open_connection(peer(), limits=ClientLimits(lines=LOW)) as connection:
            data = answer() + "\n" + "x" * 2 * LOW_CAP
            assert await said(connection, data, answer=False) == "hello"
            with pytest.raises(ServerStoppedError, match="sent a line over"):
                await connection.call_tool("echo")


@pytest.mark.slow
async def test_a_server_that_floods_before_the_handshake_is_a_start_error() -> None:
    with trio.fail_after(10):
        with pytest.raises(ServerStartError, match=f"sent a line over {LOW_CAP} bytes"):
            async with open_connection(
                peer(source=f"write_all(1, b'x' * {2 * LOW_CAP})"), limits=ClientLimits(lines=LOW)
            ):
                raise AssertionError("it opened")


@pytest.mark.parametrize("era", ERAS)
async def test_a_last_frame_without_its_newline_is_delivered(era: str) -> None:
    source = """
def say(peer, id_, arguments, meta):
    write_all(1, arguments["data"].replace("%ID%", str(id_)).encode("latin-1"))
    os._exit(0)
CALLS["say"] = say
"""
    with trio.fail_after(10):
        async with open_connection(peer(era=era, source=source)) as connection:
            assert await said(connection, answer("the last")) == "the last"


# --- fault 13: UTF-8 split over chunks; invalid bytes


async def test_characters_cut_by_chunks_are_whole_again() -> None:
    text = "é€😀ü漢"
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            for cut in (1, 2, 3, 7):
                assert await said(connection, answer(text) + "\n", cut=cut, answer=False) == text


async def test_an_invalid_byte_costs_at_most_the_frame_that_it_is_in() -> None:
    """Within a text it is shown as U+FFFD; a line that is nothing else is skipped; the session goes on."""
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            data = answer("caf\x00").encode().replace(b"\x00", b"\xe9") + b"\n"
            assert await said(connection, data, answer=False) == "caf\ufffd"
            assert await said(connection, b"\xc3\n\xe2\x82\n") == "said"
            notice = b'{"jsonrpc":"2.0","method":"notifications/\xff","params":{"a":"\xff"}}\n'
            assert await said(connection, notice) == "said"
            assert (await connection.call_tool("echo")).content == "{}"


# --- fault 14: characters that are no line ends


@pytest.mark.parametrize("era", ERAS)
async def test_only_0x0a_ends_a_line(era: str) -> None:
    """Raw in the frame: U+2028, U+2029 and U+0085; VT and FF, which JSON demands escaped, in escapes."""
    text = "a\u2028b\u2029c\x85d"
    with trio.fail_after(10):
        async with open_connection(peer(era=era)) as connection:
            assert (
                await said(connection, answer(text + r"\u000be\u000cf") + "\n", answer=False)
                == text + "\x0be\x0cf"
            )
            echoed = (await connection.call_tool("echo", {"text": text + "\x0b\x0c\r\n"})).content
            assert echoed == '{"text": "' + text + r"\u000b\f\r\n" + '"}'


async def test_a_raw_control_character_in_a_text_costs_that_call_alone() -> None:
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            for character in ("\x0b", "\x0c", "\r", "\x1c"):
                with pytest.raises(ProtocolError):
                    await said(connection, answer(f"a{character}b") + "\n", answer=False)
            assert (await connection.call_tool("echo")).content == "{}"


# --- fault 15: CRLF


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_ends_its_lines_with_crlf_is_understood_and_is_sent_bare_lf(era: str) -> None:
    source = r"""
def send(message):
    write_all(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\r\n")
take = peer.take
def count(chunk):
    peer.returns = getattr(peer, "returns", 0) + chunk.count(b"\r")
    take(chunk)
def returns(peer, id_, arguments, meta):
    peer.answer(id_, text(str(peer.returns)))
peer.send, peer.take, CALLS["seen"] = send, count, returns
"""
    with trio.fail_after(10):
        async with open_connection(peer(era=era, source=source)) as connection:
            assert (await connection.call_tool("echo", '{"a":\r\n1}')).content == '{"a": 1}'
            assert (await connection.call_tool("seen")).content == "0"
            assert connection.statistics().skipped_lines == 0


async def test_one_trailing_cr_is_stripped_and_no_more() -> None:
    """A second one is white space to JSON; a line of nothing else is empty."""
    with trio.fail_after(10):
        async with open_connection(peer()) as connection:
            assert await said(connection, "\r\r\n" + answer() + "\r\r\n", answer=False) == "hello"


# --- fault 16: deadlock of two full pipes


@pytest.mark.parametrize("era", ERAS)
async def test_a_large_answer_begun_before_a_large_request_is_read_deadlocks_nobody(era: str) -> None:
    source = r"""
take = peer.take
def early(chunk):
    if b"tools/call" in chunk and not peer.buffer:
        id_ = int(chunk.split(b'"id":', 1)[1].split(b",", 1)[0])
        line = json.dumps({"jsonrpc": "2.0", "id": id_, "result": text("y" * (5 << 20))}).encode() + b"\n"
        write_all(1, line)  # not a byte is read meanwhile
        peer.message = lambda message: None
    take(chunk)
peer.take = early
"""
    with trio.fail_after(20):
        async with open_connection(peer(era=era, source=source)) as connection:
            result = await connection.call_tool("echo", {"x": "x" * (5 << 20)})
    assert result.content == "y" * (5 << 20)
