"""Requests and answers over a stream: each call gets its own answer, or its own error, and none hangs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from trio.testing import assert_checkpoints, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.far_end import Message, Talk, byte_by_byte, talking
from trio_mcp.errors import MCPError, ProtocolError, RequestError, ServerStoppedError
from trio_mcp.transports.limits import LineLimits

#: Whole, cut into single bytes, and without any buffer between the two sides.
PAIRS = [memory_stream_pair, byte_by_byte, lockstep_stream_pair]
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)


@EVERY_PAIR
async def test_each_call_gets_its_own_answer_in_whatever_order_they_come(pair: Callable[[], Any]) -> None:
    async with talking(pair) as talk:
        asked = [await talk.ask(f"m{number}") for number in range(5)]
        for _, request in reversed(asked):
            await talk.peer.answer(request, {"to": request["method"]})
        for number, (call, _) in enumerate(asked):
            assert json.loads(await call.outcome()) == {"to": f"m{number}"}  # type: ignore[arg-type]


@EVERY_PAIR
async def test_a_request_is_one_line_of_json_rpc(pair: Callable[[], Any]) -> None:
    async with talking(pair) as talk:
        call, request = await talk.ask("tools/call", params=b'{"name":"\xc3\xa9"}')
        assert request == {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "é"}}
        await talk.peer.answer(request, {})
        await call.outcome()


async def test_a_result_is_handed_over_undecoded_byte_for_byte() -> None:
    raw = b'{ "a" : 1.10,\t"big":123456789012345678901234567890 }'
    async with talking() as talk:
        call, _ = await talk.ask()
        await talk.peer.send(b'{"jsonrpc":"2.0","id":1,"result":' + raw + b"}\n")
        assert await call.outcome() == raw


async def test_an_error_answer_is_raised_with_code_message_and_data() -> None:
    async with talking() as talk:
        call, request = await talk.ask()
        await talk.peer.refuse(request, -32602, "bad", {"why": 1})
        error = await call.outcome()
        assert isinstance(error, RequestError)
        assert (error.code, error.message, error.data) == (-32602, "bad", {"why": 1})


async def test_a_method_with_odd_characters_is_escaped() -> None:
    """Left alone, a quote would end the string and a newline the message."""
    async with talking() as talk:
        _, request = await talk.ask('a"b\n\\c\u2028')
        assert request["method"] == 'a"b\n\\c\u2028'
        await talk.peer.answer(request, {})


async def test_a_method_that_cannot_be_encoded_fails_and_tells_the_peer_nothing() -> None:
    async with talking() as talk:
        with pytest.raises(ValueError):
            await talk.transport.request("\ud800", b"{}")
        assert talk.transport.statistics().in_flight == 0
        assert (await talk.ask("next"))[1]["method"] == "next"


# --- ids


@pytest.mark.table("id_", [1, "1", 1.0], ids=repr)
async def test_an_id_that_comes_back_as_a_string_or_a_float_is_taken(id_: object) -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        await talk.peer.send({"id": id_, "result": {"ok": True}})
        assert await call.outcome() == b'{"ok": true}'


@pytest.mark.table("id_", [0, 2, -1, "one", "", "01x", 1.5, "1" * 30, 10**30, True, "\u0661"], ids=repr)
async def test_an_unknown_id_is_counted_and_costs_nobody_anything(id_: object) -> None:
    async with talking() as talk:
        call, request = await talk.ask()
        await talk.peer.send({"id": id_, "result": {}})
        await talk.peer.answer(request, {"mine": 1})
        assert await call.outcome() == b'{"mine": 1}'
        counted = talk.transport.statistics()
        assert counted.late_answers + counted.skipped_lines == 1


async def test_a_repeated_answer_is_dropped_and_counted() -> None:
    async with talking() as talk:
        call, request = await talk.ask()
        await talk.peer.send({"id": request["id"], "result": 1}, {"id": request["id"], "result": 2})
        assert await call.outcome() == b"1"
        await wait_all_tasks_blocked()
        assert talk.transport.statistics().late_answers == 1


async def test_a_late_answer_is_dropped_and_the_next_call_is_not_given_it() -> None:
    async with talking() as talk:
        call, request = await talk.ask()
        call.scope.cancel()
        await call.over.wait()
        assert (await talk.peer.take())["method"] == "notifications/cancelled"
        following, its_request = await talk.ask()
        await talk.peer.answer(request, "late")
        await talk.peer.answer(its_request, "mine")
        assert await following.outcome() == b'"mine"'
        assert talk.transport.statistics().late_answers == 1


@pytest.mark.table("id_", [b'"id":null,', b"", b'"id":{},', b'"id":true,'])
async def test_an_error_without_a_usable_id_is_that_of_the_one_call_in_flight(id_: bytes) -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        await talk.peer.send(b'{"jsonrpc":"2.0",' + id_ + b'"error":{"code":-32700,"message":"Parse error"}}\n')
        error = await call.outcome()
        assert isinstance(error, RequestError)
        assert error.code == -32700


async def test_an_error_without_an_id_is_nobodys_where_two_calls_are_in_flight() -> None:
    async with talking() as talk:
        asked = [await talk.ask(), await talk.ask()]
        await talk.peer.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n')
        for call, request in asked:
            await talk.peer.answer(request, {})
            assert await call.outcome() == b"{}"
        assert talk.transport.statistics().late_answers == 1


# --- batches


async def test_a_batch_of_one_is_unpacked() -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        await talk.peer.send(b'[{"jsonrpc":"2.0","id":1,"result":{"a":1}}]\n')
        assert await call.outcome() == b'{"a":1}'


async def test_each_message_of_a_batch_reaches_whom_it_is_for() -> None:
    async with talking() as talk:
        first, second = await talk.ask(), await talk.ask()
        batch = [
            {"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": "m"}},
            {"jsonrpc": "2.0", "method": "n"},
            {"jsonrpc": "2.0", "id": 1, "result": {}},
        ]
        await talk.peer.send(json.dumps(batch).encode() + b"\n")
        assert await first[0].outcome() == b"{}"
        assert isinstance(await second[0].outcome(), RequestError)
        assert talk.heard.notifications == [("n", b"")]


# --- answers that are none

#: What comes in place of an answer to request 1, and what the call then raises.
MALFORMED: list[tuple[bytes, type[MCPError]]] = [
    (b'{"jsonrpc":"2.0","id":1}', ProtocolError),
    (b'{"id":1,"error":null}', ProtocolError),
    (b'{"id":1,"error":"text"}', ProtocolError),
    (b'{"id":1,"error":{}}', ProtocolError),
    (b'{"id":1,"error":[]}', ProtocolError),
    (b'{"id":1,"error":{"code":"x","message":"m"}}', ProtocolError),
    (b'{"id":1,"error":{"code":null}}', ProtocolError),
    (b'{"id":1,"error":{"code":NaN,"message":"m"}}', ProtocolError),
    (b'{"id":1,"error":{"code":Infinity}}', ProtocolError),
    (b'{"id":1,"error":{"code":1e999}}', ProtocolError),
    (b'{"id":1,"error":{"code":-1}}', RequestError),
    (b'{"id":1,"error":{"code":-1.0,"message":7}}', RequestError),
    (b'{"id":1,"error":{"code":-1,"message":"m"},"result":{}}', RequestError),
    (b'{"id":1,"error":{"code":-1,"message":"m"},"result":null}', RequestError),
    (b'{"jsonrpc":"2.0","id":1,"result":{"cut":"of', ProtocolError),
    (b'{"jsonrpc":"2.0","result":{"a":1,},"id":1}', ProtocolError),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,', ProtocolError),
    (b'{"jsonrpc":"2.0","id":"1","result":{]}', ProtocolError),
    (b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 200_000 + b"]" * 200_000 + b"}", ProtocolError),
    (b'{"jsonrpc":"2.0","id":1,"result":' + b"1" * 5000 + b",}", ProtocolError),
]


@pytest.mark.table(("line", "error"), MALFORMED, ids=[repr(line[:60]) for line, _ in MALFORMED])
async def test_a_malformed_answer_fails_its_call_and_no_other(line: bytes, error: type[MCPError]) -> None:
    async with talking() as talk:
        (call, _), (other, request) = await talk.ask(), await talk.ask()
        await talk.peer.send(line + b"\n")
        assert type(await call.outcome()) is error
        await talk.peer.answer(request, {})
        assert await other.outcome() == b"{}"


WIDE = [b'{"a":NaN}', b'"\\ud800"', b'"\xff\xfe"', b"[-Infinity,1e999]", b"null", b'"\xe2\x80\xa8\xc2\x85"']


@pytest.mark.table("result", WIDE, ids=repr)
async def test_what_only_a_wide_reader_reads_is_an_answer_all_the_same(result: bytes) -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        await talk.peer.send(b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}\n")
        assert isinstance(await call.outcome(), bytes)


@pytest.mark.table("cut", [b'\\"', b'"', b"\\\\", b"[", b'{"a":', b"\\"], ids=repr)
async def test_a_long_answer_that_was_cut_off_does_not_hold_the_reader(cut: bytes) -> None:
    """The remains are searched for an id, in linear time: a server killed in the middle of a text is usual."""
    line = b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + cut * 5_000
    async with talking() as talk:
        call, _ = await talk.ask()
        began = time.perf_counter()
        await talk.peer.send(line)
        await talk.peer.output.aclose()
        assert isinstance(await call.outcome(), ProtocolError)
        assert time.perf_counter() - began < 1


# --- lines that are none

JUNK = [
    b"Server ready!",
    b"{not json",
    b"true",
    b"17",
    b'"text"',
    b"[]",
    b"[1]",
    b"{}",
    b'{"level":"info"}',
    b"\xff",
]


@pytest.mark.parametrize("line", JUNK, ids=repr)
async def test_a_line_that_is_no_message_is_skipped_counted_and_shown(
    line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking() as talk:
        call, request = await talk.ask()
        await talk.peer.send(line + b"\n")
        await talk.peer.answer(request, {})
        assert await call.outcome() == b"{}"
        assert talk.transport.statistics().skipped_lines == 1
        assert talk.transport.samples == [line.decode(errors="replace")]
    (record,) = caplog.records
    assert "skipped" in record.getMessage()
    assert 'server "peer"' in record.getMessage()


async def test_a_flood_of_junk_is_one_warning_and_five_clipped_samples(caplog: pytest.LogCaptureFixture) -> None:
    async with talking() as talk:
        call, request = await talk.ask()
        await talk.peer.send(b"".join(b"%d" % number + b"x" * 10_000 + b"\n" for number in range(50)))
        await talk.peer.answer(request, {})
        await call.outcome()
        assert talk.transport.statistics().skipped_lines == 50
        assert [sample[0] for sample in talk.transport.samples] == ["0", "1", "2", "3", "4"]
        assert {len(sample) for sample in talk.transport.samples} == {200}
    assert len(caplog.records) == 1


async def test_empty_lines_and_crlf_are_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        await talk.peer.send(b'\n\r\n  \n{"jsonrpc":"2.0","id":1,"result":{}}\r\n')
        assert await call.outcome() == b"{}"
    assert caplog.records == []


async def test_a_line_over_the_cap_ends_it_and_what_came_before_is_delivered() -> None:
    async with talking(limits=LineLimits(max_line=100)) as talk:
        (first, request), (second, _) = await talk.ask(), await talk.ask()
        answer = json.dumps({"id": request["id"], "result": {}}).encode()
        await talk.peer.send(answer + b"\n" + b"x" * 200)
        assert await first.outcome() == b"{}"
        error = await second.outcome()
        assert isinstance(error, ServerStoppedError)
        assert error.reason == "sent a line over 100 bytes"


async def test_a_last_answer_without_its_line_end_is_an_answer() -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        await talk.peer.send(b'{"jsonrpc":"2.0","id":1,"result":"last"}')
        await talk.peer.output.aclose()
        assert await call.outcome() == b'"last"'


# --- what the peer says by itself


@EVERY_PAIR
async def test_notifications_and_questions_are_passed_on_in_order(pair: Callable[[], Any]) -> None:
    async with talking(pair) as talk:
        await talk.peer.send(
            {"method": "a", "params": {"x": 1}},
            {"id": "q", "method": "ping"},
            {"id": 7, "method": "roots/list", "params": {}},
            {"method": "b"},
        )
        await wait_all_tasks_blocked(0.01)
        assert talk.heard.notifications == [("a", b'{"x": 1}'), ("b", b"")]
        assert talk.heard.questions == [("q", "ping", b""), (7, "roots/list", b"{}")]


async def test_questions_are_answered_with_their_own_id() -> None:
    async with talking() as talk:
        talk.transport.respond("q", b"{}")
        assert await talk.peer.take() == {"jsonrpc": "2.0", "id": "q", "result": {}}
        talk.transport.respond(7, RequestError(-32601, "no", {"a": 1}))
        refusal: Message = {"code": -32601, "message": "no", "data": {"a": 1}}
        assert await talk.peer.take() == {"jsonrpc": "2.0", "id": 7, "error": refusal}


# --- the rest


async def test_a_request_is_a_checkpoint() -> None:
    async def answer_all(talk: Talk) -> None:
        while True:
            await talk.peer.answer(await talk.peer.take(), {})

    async with talking() as talk:
        talk.nursery.start_soon(answer_all, talk)
        with assert_checkpoints():
            await talk.transport.request("m", b"{}")
        talk.nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_ten_thousand_calls_in_flight_all_get_their_own_answer() -> None:
    async with talking(limit=30) as talk:
        calls = {f"m{number}": talk.start(f"m{number}") for number in range(10_000)}
        requests = [await talk.peer.take() for _ in calls]
        assert talk.transport.statistics().in_flight == 10_000
        await talk.peer.send(*[{"id": it["id"], "result": it["method"]} for it in reversed(requests)])
        assert [json.loads(await call.outcome()) for call in calls.values()] == list(calls)  # type: ignore[arg-type]


async def test_statistics_count_bytes_both_ways_and_calls_in_flight() -> None:
    async with talking() as talk:
        call, _ = await talk.ask()
        await wait_all_tasks_blocked()
        counted = talk.transport.statistics()
        assert counted.in_flight == 1
        assert counted.bytes_out == len(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}\n')
        line = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
        await talk.peer.send(line)
        await call.outcome()
        counted = talk.transport.statistics()
        assert (counted.in_flight, counted.bytes_in) == (0, len(line))
        assert talk.transport.stderr_tail == ""


async def test_its_repr_tells_its_state_and_calls() -> None:
    async with talking() as talk:
        await talk.ask()
        assert repr(talk.transport) == "<StreamTransport 'peer' open, 1 in flight>"
    assert repr(talk.transport) == "<StreamTransport 'peer' ended, 0 in flight>"
