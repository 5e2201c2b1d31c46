"""A server over HTTP that is busy or broken while it is opened: told as it is, and no word on what it speaks."""

from __future__ import annotations

import pytest
import trio

from tests.http_peer import Exchange, start_peer
from trio_mcp import ServerStartError, open_connection

STATUSES = {408: "Request Timeout", 425: "Too Early", 429: "Too Many Requests", 500: "Error", 503: "Busy"}


@pytest.mark.parametrize("with_error", [False, True], ids=["bare", "with a JSON-RPC error"])
@pytest.mark.parametrize("status", STATUSES)
async def test_a_status_that_passes_is_told_with_its_retry_after_and_nothing_is_remembered(
    nursery: trio.Nursery, status: int, with_error: bool
) -> None:
    peer = await start_peer(nursery, "modern")

    async def refuse(exchange: Exchange) -> None:
        line = f"{status} {STATUSES[status]}"
        if with_error:
            error = {"code": -32000, "message": "not now"}
            message = {"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}
            await exchange.json(message, line, retry_after="7")
        else:
            await exchange.status(line, retry_after="7")

    peer.on["server/discover"] = refuse
    with trio.fail_after(10):
        with pytest.raises(ServerStartError, match=f"HTTP {status}") as caught:
            async with open_connection(peer.server()):
                raise AssertionError("it opened")
        assert (caught.value.status, caught.value.retry_after) == (status, 7.0)
        assert peer.methods() == ["server/discover"], "no handshake of the other era"
        del peer.on["server/discover"]
        async with open_connection(peer.server()) as connection:
            assert connection.protocol_version == "2026-07-28"


async def test_a_legacy_server_that_is_busy_at_the_handshake_is_told_likewise(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")

    async def refuse(exchange: Exchange) -> None:
        await exchange.status("429 Too Many Requests", retry_after="Fri, 01 Jan 2010 00:00:00 GMT")

    peer.on["initialize"] = refuse
    with trio.fail_after(10), pytest.raises(ServerStartError, match="HTTP 429") as caught:
        async with open_connection(peer.server()):
            raise AssertionError("it opened")
    assert (caught.value.status, caught.value.retry_after) == (429, 0.0)
    assert peer.methods().count("initialize") == 1


async def test_the_revision_that_a_refusal_of_initialize_names_is_spoken(nursery: trio.Nursery) -> None:
    peer = await start_peer(nursery, "legacy")
    peer.revision = "2025-03-26"

    async def particular(exchange: Exchange) -> None:
        if exchange.params["protocolVersion"] == peer.revision:
            await peer.behave(exchange)
        else:
            data = {"supported": [peer.revision], "requested": exchange.params["protocolVersion"]}
            await exchange.error(-32602, "Unsupported protocol version", data, status="400 Bad Request")

    peer.on["initialize"] = particular
    with trio.fail_after(10):
        async with open_connection(peer.server(protocol="legacy")) as connection:
            assert connection.protocol_version == peer.revision
