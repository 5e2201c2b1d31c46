"""Drives a `Negotiation` over a transport: sends what it decides on, reports the answers, keeps the time.

Decides nothing itself: which message comes next, the machine says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import trio

from ..errors import ProtocolError, RequestError, ServerStoppedError
from ..nursery import bare_nursery
from ..protocol.headers import request_headers
from ..protocol.messages import decode_json, encode_json
from ..protocol.negotiation import Decision, Discover, Initialize, Negotiation, Wait
from ..protocol.revisions import LEGACY_VERSIONS, request_meta
from ..transports.base import NO_HEADERS, Transport

Event = Callable[[], Decision]


def initialize_params(
    version: str, client_info: Mapping[str, Any], capabilities: Mapping[str, Any]
) -> dict[str, Any]:
    """The params of the legacy handshake."""
    return {"protocolVersion": version, "capabilities": dict(capabilities), "clientInfo": dict(client_info)}


async def initialize_again(
    transport: Transport, version: str, client_info: Mapping[str, Any], capabilities: Mapping[str, Any]
) -> str:
    """Make the legacy handshake once more, in place of a lost session; the revision that the server speaks now.

    Raises:
        MCPError: the handshake failed.
    """
    params = encode_json(initialize_params(version, client_info, capabilities))
    data = bytes(await transport.request("initialize", params, cancellable=False))
    result = decode_json(data)
    found = result.get("protocolVersion") if isinstance(result, dict) else None
    if found not in LEGACY_VERSIONS:
        raise ProtocolError("initialize was answered without a protocolVersion that is known", data)
    transport.negotiated(found)
    transport.notify("notifications/initialized")
    return str(found)


@trio.lowlevel.disable_ki_protection  # functions of the program, such as that for headers, run here
async def negotiate(
    transport: Transport,
    negotiation: Negotiation,
    client_info: Mapping[str, Any],
    capabilities: Mapping[str, Any],
    *,
    probe_patience: float,
) -> tuple[Decision, ServerStoppedError | None]:
    """Negotiate over one start of a server, until there is a final decision.

    A server that has not answered the probe after `probe_patience` seconds counts as silent.

    Returns the decision (never `Discover`, `Initialize` or `Wait`), and how the server went away, if it did.

    Raises:
        AuthError: the server refuses the credentials, which says nothing of its era.
    """
    send, receive = trio.open_memory_channel[Event](math.inf)  # at most a handful: one an event
    lost: list[ServerStoppedError] = []

    async def ask(
        method: str,
        params: dict[str, Any],
        answered: Callable[[Any], Decision],
        failed: Callable[..., Decision],
        refused: Callable[[str], Decision],
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        event: Event
        try:
            data = await transport.request(method, encode_json(params), headers=headers, cancellable=False)
            event = partial(answered, decode_json(data))
        except RequestError as error:
            event = partial(failed, error.code, error.message, error.data)
        except ProtocolError:
            event = partial(answered, None)  # an answer all the same, though none that can be read
        except ServerStoppedError as error:
            lost.append(error)
            # basic/transports, "Backward Compatibility": a 4xx says that the endpoint does not know this era; but
            # not one that is about the moment: too slow, too early, too many.
            status = error.status
            is_refusal = status is not None and 400 <= status < 500 and status not in (408, 425, 429)
            event = partial(refused, error.reason) if is_refusal else negotiation.exited
        if method == "initialize":
            # trio wakes tasks in no order: an answer to the probe in the same chunk is reported first.
            await trio.lowlevel.checkpoint()
        send.send_nowait(event)

    patient_until = math.inf
    async with bare_nursery() as nursery:
        decision = negotiation.begin()
        while isinstance(decision, Discover | Initialize | Wait):
            if isinstance(decision, Discover):
                params: dict[str, Any] = {"_meta": request_meta(decision.version, client_info, capabilities)}
                nursery.start_soon(
                    ask,
                    "server/discover",
                    params,
                    negotiation.discover_answered,
                    negotiation.discover_failed,
                    negotiation.discover_refused,
                    request_headers(decision.version, "server/discover", params),
                )
                patient_until = trio.current_time() + probe_patience
            elif isinstance(decision, Initialize):
                params = initialize_params(decision.version, client_info, capabilities)
                nursery.start_soon(
                    ask,
                    "initialize",
                    params,
                    negotiation.initialize_answered,
                    negotiation.initialize_failed,
                    negotiation.initialize_refused,
                )
            happened: Event = negotiation.silent
            with trio.move_on_at(patient_until) as waiting:
                happened = await receive.receive()
            if waiting.cancelled_caught:
                patient_until = math.inf
            decision = happened()
        nursery.cancel_scope.cancel()
    return decision, lost[-1] if lost else None
