"""Drives a `Negotiation`: sends what it decides over a transport, reports what comes back, keeps the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import trio

from ..errors import ProtocolError, RequestError, ServerStoppedError
from ..nursery import bare_nursery
from ..protocol.messages import decode_json, encode_json
from ..protocol.versions import (
    PROBE_PATIENCE,
    Decision,
    Discover,
    Initialize,
    Negotiation,
    Wait,
    request_meta,
)
from ..transports.base import Transport

Event = Callable[[], Decision]


async def negotiate(
    transport: Transport,
    negotiation: Negotiation,
    client_info: Mapping[str, Any],
    capabilities: Mapping[str, Any],
) -> tuple[Decision, ServerStoppedError | None]:
    """Negotiate over one start of a server, until there is a final decision.

    Returns the decision (never `Discover`, `Initialize` or `Wait`), and how the server went away, if it did.
    """
    send, receive = trio.open_memory_channel[Event](math.inf)  # at most a handful: one an event
    lost: list[ServerStoppedError] = []

    async def ask(
        method: str, params: dict[str, Any], answered: Callable[[Any], Decision], failed: Callable[..., Decision]
    ) -> None:
        event: Event
        try:
            event = partial(
                answered, decode_json(await transport.request(method, encode_json(params), cancellable=False))
            )
        except RequestError as error:
            event = partial(failed, error.code, error.message, error.data)
        except ProtocolError:
            event = partial(answered, None)  # an answer all the same, and surely not the one asked for
        except ServerStoppedError as error:
            lost.append(error)
            event = negotiation.exited
        if method == "initialize":
            # trio wakes tasks in no order: an answer to the probe that came in the same chunk is told first.
            await trio.lowlevel.checkpoint()
        send.send_nowait(event)

    async def be_patient() -> None:
        await trio.sleep(PROBE_PATIENCE)
        send.send_nowait(negotiation.silent)

    async with bare_nursery() as nursery:
        decision = negotiation.begin()
        while isinstance(decision, Discover | Initialize | Wait):
            if isinstance(decision, Discover):
                params: dict[str, Any] = {"_meta": request_meta(decision.version, client_info, capabilities)}
                nursery.start_soon(
                    ask, "server/discover", params, negotiation.discover_answered, negotiation.discover_failed
                )
                nursery.start_soon(be_patient)
            elif isinstance(decision, Initialize):
                params = {
                    "protocolVersion": decision.version,
                    "capabilities": dict(capabilities),
                    "clientInfo": dict(client_info),
                }
                nursery.start_soon(
                    ask, "initialize", params, negotiation.initialize_answered, negotiation.initialize_failed
                )
            decision = (await receive.receive())()
        nursery.cancel_scope.cancel()
    return decision, lost[0] if lost else None
