"""Protocol revisions, the two eras they belong to, and the keys of `_meta` that the modern era demands.

The *modern* era (2026-07-28 and later) has no handshake: every request carries its own metadata. The *legacy*
era begins with `initialize`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Era = Literal["modern", "legacy"]

#: What `Server.protocol` may be: the client finds out, one of the eras, or one revision that alone is acceptable.
ProtocolChoice = Literal[
    "auto", "modern", "legacy", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"
]

#: The revisions that this library speaks, the newest first.
MODERN_VERSIONS: Final = ("2026-07-28",)
LEGACY_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

#: The prefix of the keys in `_meta` that are the specification's own.
META_PREFIX = "io.modelcontextprotocol/"
META_VERSION = META_PREFIX + "protocolVersion"
META_CAPABILITIES = META_PREFIX + "clientCapabilities"
META_CLIENT_INFO = META_PREFIX + "clientInfo"
META_LOG_LEVEL = META_PREFIX + "logLevel"
META_SERVER_INFO = META_PREFIX + "serverInfo"
META_SUBSCRIPTION = META_PREFIX + "subscriptionId"


def request_meta(version: str, client_info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The `_meta` that every request of the modern era carries, the probe included."""
    return {
        META_VERSION: version,
        META_CAPABILITIES: dict(capabilities),
        META_CLIENT_INFO: dict(client_info),
    }
