"""Whatever bytes a peer sends: the reader lives, each call ends, and ends once."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from tests.depth import examples
from tests.far_end import talking
from trio_mcp.errors import MCPError

#: Ids 1 and 2 are those of the two calls in flight; the rest looks like them.
IDS: st.SearchStrategy[Any] = st.sampled_from(
    [1, 2, "1", "2", 1.0, 0, 3, -1, None, True, "", "x", [], {}, 1e300, 10**40]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "id": IDS,
        "method": st.sampled_from(["notifications/progress", "ping", ""]) | VALUES,
        "params": VALUES | st.fixed_dictionaries({"progressToken": IDS, "progress": VALUES}),
        "result": VALUES,
        "error": VALUES | st.fixed_dictionaries({"code": VALUES}, optional={"message": VALUES, "data": VALUES}),
    },
)


@st.composite
def lines(draw: Any) -> bytes:
    """A message, a batch, junk, or one of them damaged."""
    kind = draw(st.sampled_from(["message", "batch", "bytes"]))
    if kind == "bytes":
        return bytes(draw(st.binary(max_size=40)))
    value = draw(MESSAGES if kind == "message" else st.lists(MESSAGES, max_size=3))
    data = json.dumps(value).encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + draw(st.integers(0, 3)) :]
    return data


async def survives(sent: list[bytes], cut: int) -> None:
    progressed: list[bytes] = []

    async def on_progress(params: bytes) -> None:
        progressed.append(params)

    async with talking() as talk:
        calls = []
        for token in (1, 2):
            call, _ = await talk.ask(progress_token=token, on_progress=on_progress)
            calls.append(call)
        data = b"\n".join(sent) + b"\n"
        await talk.peer.send(data[:cut])
        await wait_all_tasks_blocked()
        await talk.peer.send(data[cut:])
        await wait_all_tasks_blocked()
        assert not talk.heard.ends, "the connection goes on"
        answered = [call.over.is_set() for call in calls]
        last, request = await talk.ask("last")
        await talk.peer.send({"id": 1, "result": 1}, {"id": 2, "result": 2}, {"id": request["id"], "result": 3})
        assert await last.outcome() == b"3"
        for number, (call, was_answered) in enumerate(zip(calls, answered, strict=True), 1):
            outcome = await call.outcome()
            assert isinstance(outcome, bytes | MCPError)
            assert was_answered or outcome == b"%d" % number
        assert talk.transport.statistics().in_flight == 0


@settings(max_examples=examples(100))
@given(sent=st.lists(lines(), max_size=6), cut=st.integers(0, 200))
def test_any_lines_leave_the_reader_alive_and_cost_at_most_the_calls_that_they_name(
    sent: list[bytes], cut: int
) -> None:
    trio.run(survives, sent, cut)


@pytest.mark.table("line", [b'{"id":1,"error":{"code":1e999}}', b'{"id":true,"result":1}', b'[{"id":1}]'])
async def test_what_fuzzing_has_found(line: bytes) -> None:
    await survives([line], 5)
