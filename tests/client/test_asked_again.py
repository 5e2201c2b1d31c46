"""A modern server that asks back: the call is made again, with answers and state, for ten rounds at most."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from tests.http_peer import Exchange, start_peer
from tests.scripts import DONE, call_that_asks, handshake, wire
from tests.wiretap import open_tapped_script
from trio_mcp import ClientLimits, ElicitRequest, ElicitResult, ProtocolError, open_connection
from trio_mcp.client.options import Options
from trio_mcp.testing import open_script


async def decline(request: ElicitRequest) -> ElicitResult:
    return ElicitResult.decline()


def rounds(*states: Any, requests: Any = None) -> str:
    """A call whose server gives these states, one a round; each must come back with the next request."""
    lines = handshake("modern")
    expected: dict[str, Any] = {"name": "t", "arguments": {}}
    for number, state in enumerate(states):
        members = {"inputRequests": requests, "requestState": state}
        members = {key: value for key, value in members.items() if value is not None}
        asked = {"resultType": "input_required", **members}
        lines += wire(
            (">", {"method": "tools/call", "id": f"@{number}", "params": expected}),
            ("<", {"id": f"@{number}", "result": asked}),
        )
        expected = {"name": "t", "arguments": {}, **({} if state is None else {"requestState": state})}
    return lines + wire((">", {"method": "tools/call", "id": "@last", "params": expected}))


@pytest.mark.slow
async def test_the_state_comes_back_as_it_was_under_a_new_id_and_in_that_request_alone() -> None:
    state = 'é "\\ \u2028 \ud800 ' + "x" * 1000
    script = rounds(state, "another") + wire(("<", {"id": "@last", "result": DONE}))
    script += wire((">", {"method": "tools/call", "id": "@next"}), ("<", {"id": "@next", "result": DONE}))
    options = Options("tapped", on_elicit=decline)
    async with open_tapped_script(script, protocol="modern", options=options) as (connection, tap):
        await connection.call_tool("t")
        await connection.call_tool("t")
    sent = [message for message in map(json.loads, tap.sent.splitlines()) if message["method"] == "tools/call"]
    assert len({message["id"] for message in sent}) == 4
    assert [message["params"].get("requestState") for message in sent] == [None, state, "another", None]


async def test_a_server_may_ask_ten_times_and_not_an_eleventh(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    question = {"k": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {}}}}
    script = rounds(*["s"] * 10, requests=question) + wire(("<", {"id": "@last", "result": DONE}))
    async with open_script(script, protocol="modern", on_elicit=decline) as connection:
        assert (await connection.call_tool("t")).content == "done"
    script = rounds(*["s"] * 10, requests=question) + wire(
        ("<", {"id": "@last", "result": {"resultType": "input_required", "inputRequests": question}})
    )
    async with open_script(script, protocol="modern", on_elicit=decline) as connection:
        with pytest.raises(ProtocolError, match="the server asks for input again after 10 rounds"):
            await connection.call_tool("t")


async def test_a_server_that_only_wants_to_be_asked_again_is_given_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = rounds("a", "b", "c") + wire(("<", {"id": "@last", "result": DONE}))
    async with open_script(script, protocol="modern", on_elicit=decline) as connection:
        began = trio.current_time()
        await connection.call_tool("t")
        assert trio.current_time() - began == pytest.approx(ClientLimits().round_pause * 7)


async def test_questions_to_any_method_are_answered() -> None:
    """`request` goes through the rounds too: prompts and resources ask as tools do."""
    script = handshake("modern") + call_that_asks(
        "modern", {"message": "m", "requestedSchema": {}}, answer={"action": "decline"}
    ).replace("tools/call", "prompts/get")
    async with open_script(script, protocol="modern", on_elicit=decline) as connection:
        assert await connection.request("prompts/get", {"name": "t"}) == DONE


async def test_a_call_of_very_many_rounds_is_waited_for_as_any_other(nursery: trio.Nursery) -> None:
    """The pause is doubled in each round, and 2 to the power of 1,024 has no float."""
    peer = await start_peer(nursery, "modern")
    left = iter(range(1025))

    async def again(exchange: Exchange) -> None:
        is_over = next(left, None) is None
        await exchange.result(DONE if is_over else {"resultType": "input_required", "requestState": "s"})

    peer.calls["echo"] = again
    limits = ClientLimits(max_rounds=1025, round_pause=0.0)
    with trio.fail_after(30):
        async with open_connection(peer.server(), limits=limits) as connection:
            assert (await connection.call_tool("echo")).content == "done"
