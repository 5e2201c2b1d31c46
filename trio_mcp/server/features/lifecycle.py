"""How a client begins: the handshake of the legacy era, and the discovery of the modern one.

Knows no other feature: what a server declares, the table of features says.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from ...errors import RequestError
from ...protocol.messages import INVALID_PARAMS, encode_json
from ...protocol.revisions import LEGACY_VERSIONS
from ..client_state import ClientState
from ..feature import Feature, FeatureTable, Method, Request
from ..params import SUPPORTED, Params
from ..registry import ToolServer


class InitializeParams(Params):
    """The params of `initialize`."""

    protocol_version: Any = msgspec.field(default=None, name="protocolVersion")
    capabilities: Any = None
    client_info: Any = msgspec.field(default=None, name="clientInfo")


def _initialize(request: Request[InitializeParams]) -> bytes:
    # basic/lifecycle: "If the server supports the requested protocol version, it MUST respond with the same
    # version. Otherwise, the server MUST respond with another protocol version it supports."
    params, client, server = request.params, request.client, request.server
    wanted = params.protocol_version
    if not isinstance(wanted, str):
        raise RequestError(INVALID_PARAMS, "protocolVersion: expected a string")
    client.version = wanted if wanted in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
    client.client_info = params.client_info if isinstance(params.client_info, dict) else None
    client.capabilities = params.capabilities if isinstance(params.capabilities, dict) else {}
    return encode_json(
        {
            "protocolVersion": client.version,
            "capabilities": request.features.capabilities(server, "legacy"),
            "serverInfo": server.info,
            **_instructions(server),
        }
    )


def _ping(request: Request[Params]) -> bytes:
    return b"{}"


def _discover(request: Request[Params]) -> bytes:
    server = request.server
    return encode_json(
        {
            "supportedVersions": SUPPORTED,
            "capabilities": request.features.capabilities(server, "modern"),
            **_instructions(server),
            "ttlMs": 0,
            "cacheScope": "private",
            **server.modern_members,
        }
    )


def _instructions(server: ToolServer) -> dict[str, Any]:
    return {} if server.instructions is None else {"instructions": server.instructions}


def _initialized(client: ClientState, features: FeatureTable, params: bytes) -> None:
    """The client is ready: from now on it is told of every change."""
    if client.version is None or client.closing.is_set():
        return
    for topic in features.topics:
        client.server.changes.listen(topic, client, partial(client.announce, topic.notification, b"{}"))


LIFECYCLE = Feature(
    methods=(
        Method(
            name="initialize",
            params=InitializeParams,
            legacy=_initialize,
            needs_initialize=False,
            opens_session=True,
        ),
        # basic/utilities/ping; basic/lifecycle allows it before the handshake is complete.
        Method(name="ping", params=Params, legacy=_ping, needs_initialize=False),
        Method(name="server/discover", params=Params, modern=_discover),
    ),
    notifications={"notifications/initialized": _initialized},
)
