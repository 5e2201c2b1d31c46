"""What a connection over HTTP makes good itself: a lost session, stale headers, a revision refused by mistake."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs
import trio

from ..errors import MCPError, RequestError
from ..protocol.messages import HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION
from .negotiating import initialize_again

if TYPE_CHECKING:
    from ..transports.base import Transport
    from .client import Client
    from .options import Options

logger = logging.getLogger("trio_mcp.client")


async def correct(client: Client, method: str, error: RequestError) -> bool:
    """Mend what a modern request was refused for; whether it is to be made once more."""
    # server/tools: on HeaderMismatch a client "SHOULD" list the tools again, rebuild the headers and retry once.
    if error.code == HEADER_MISMATCH and method == "tools/call":
        try:
            await client.refresh_tools()
        except MCPError:
            return False
        return True
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return (
        error.code == UNSUPPORTED_PROTOCOL_VERSION
        and isinstance(supported, list)
        and client.agreed.version in supported
    )


async def reopen_session(client: Client, transport: Transport, options: Options) -> None:
    """Legacy: the server has forgotten the session; make a new one, and ask for what the old one had.

    Raises:
        MCPError: the handshake failed.
    """
    version = await initialize_again(
        transport, client.agreed.version, options.client_info, options.elicitor.capabilities
    )
    client.agreed = attrs.evolve(client.agreed, version=version)
    client.start_soon(_ask_for_logs_again, client)


async def _ask_for_logs_again(client: Client) -> None:
    try:
        await client.ask_for_logs()
    except (MCPError, trio.ClosedResourceError) as error:
        logger.warning('server "%s": logging/setLevel failed: %s', client.name, error)
