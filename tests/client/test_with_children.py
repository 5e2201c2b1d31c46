"""The body dies first, beside real children that tell what they received."""

from __future__ import annotations

import pytest
import trio

from tests.peers import ERAS, open_lives, peer
from trio_mcp import Connection, ServerStoppedError, connect, open_connection

CALLS = 3


@pytest.mark.parametrize("era", ERAS)
async def test_calls_that_an_outer_cancel_ends_tell_the_server_before_it_reads_the_end_of_input(
    era: str, nothing_left: dict[str, str]
) -> None:
    with trio.fail_after(20):
        async with open_lives() as lives:
            with trio.CancelScope() as scope:
                server = peer(era=era, alive=lives.port)
                async with open_connection(server) as connection, trio.open_nursery() as nursery:
                    for _ in range(CALLS):
                        nursery.start_soon(connection.call_tool, "hang")
                    await lives.called(CALLS)
                    scope.cancel()
            await lives.ended()
    said = lives.said["server"]
    assert said[-CALLS - 1 :] == ["notifications/cancelled"] * CALLS + ["eof"]


async def test_calls_that_the_end_of_a_nursery_ends_tell_the_server_too(nothing_left: dict[str, str]) -> None:
    with trio.fail_after(20):
        async with open_lives() as lives:
            async with trio.open_nursery() as nursery:
                connection = await connect(nursery, peer(alive=lives.port))
                for _ in range(CALLS):
                    nursery.start_soon(connection.call_tool, "hang")
                await lives.called(CALLS)
                nursery.cancel_scope.cancel()
            await lives.ended()
    assert lives.said["server"][-CALLS - 1 :] == ["notifications/cancelled"] * CALLS + ["eof"]


async def test_a_shielded_cleanup_under_an_outer_cancel_can_still_call(nothing_left: dict[str, str]) -> None:
    said: list[str] = []

    async def tidy_up(connection: Connection) -> None:
        with trio.CancelScope(shield=True):
            said.append((await connection.call_tool("echo", {"text": "tidied up"})).content)

    with trio.fail_after(20), trio.CancelScope() as scope:
        async with open_connection(peer()) as connection:
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                await tidy_up(connection)
    assert said == ['{"text": "tidied up"}']


async def test_a_server_that_dies_in_the_body_is_told_by_the_next_call_alone(nothing_left: dict[str, str]) -> None:
    with trio.fail_after(20):
        async with open_connection(peer()) as connection:
            with pytest.raises(ServerStoppedError):
                await connection.call_tool("exit", {"status": 3})
            await trio.lowlevel.checkpoint()
            assert connection.error is not None
            assert connection.error.returncode == 3
