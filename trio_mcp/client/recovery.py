"""Recovers requests over HTTP from a lost session, stale headers, or a revision that was refused by mistake.

Such a request is made once more, and only where the server has said that it did nothing. A lost session is
replaced by one handshake for all callers, in a task of the connection: a caller that is cancelled takes nothing
with it. This file reaches the connection through callables only.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

import trio

from ..errors import AuthError, ExchangeError, MCPError, RequestError, ServerStoppedError, renewed
from ..protocol.messages import HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION, Encoded, Undecoded
from ..transports.base import NO_HEADERS, OnRawProgress, SessionLostError, Transport

logger: logging.Logger = logging.getLogger("trio_mcp.client")

#: Makes the headers of a request; once more for each try.
MakeHeaders = Callable[[], Mapping[str, str]]


class Recovery:
    """Makes requests over HTTP, and makes one again, once, where that is of use.

    `renewal` replaces lost sessions; `correct` is asked about each error that a modern server answers: whether its
    cause has been removed, so that another try is worth it.
    """

    def __init__(
        self,
        server_name: str,
        renewal: SessionRenewal,
        correct: Callable[[str, RequestError], Awaitable[bool]] | None,
    ) -> None:
        self._server_name = server_name
        self._renewal = renewal
        self._correct = correct

    async def request(
        self,
        transport: Transport,
        method: str,
        params: Encoded,
        make_headers: MakeHeaders | None,
        *,
        progress_token: int | None = None,
        on_progress: OnRawProgress | None = None,
        long_lived: bool = False,
    ) -> Undecoded:
        """One request; its result, undecoded. Raises as `Transport.request`, but for SessionLostError."""
        is_first = True
        while True:
            headers = NO_HEADERS if make_headers is None else make_headers()
            try:
                return await transport.request(
                    method,
                    params,
                    headers=headers,
                    progress_token=progress_token,
                    on_progress=on_progress,
                    long_lived=long_lived,
                )
            except SessionLostError as lost:
                if not is_first:
                    raise ExchangeError(self._server_name, "does not keep its sessions", status=404) from None
                session = lost
            except RequestError as error:
                if not is_first or self._correct is None or not await self._correct(method, error):
                    raise
                session = None
            is_first = False
            if session is not None:
                await self._renewal.renew(session)


class SessionRenewal:
    """Replaces the lost session of a legacy server.

    `reinitialize` makes the handshake once more; `start_soon` starts a task of the connection, and says whether it
    did.
    """

    def __init__(
        self,
        reinitialize: Callable[[], Awaitable[None]],
        start_soon: Callable[[Callable[..., Awaitable[None]], _Handshake, SessionLostError], bool],
    ) -> None:
        self._reinitialize = reinitialize
        self._start_soon = start_soon
        self._replaced = 0  # the number of the last session that has been replaced
        self._handshake: _Handshake | None = None
        self._ended_by: ServerStoppedError | None = None  # a handshake that failed

    async def renew(self, lost: SessionLostError) -> None:
        """Wait until there is a session in place of the lost one.

        Raises:
            ServerStoppedError: the handshake failed, which has ended the connection.
            AuthError: it was refused; the next caller may have better credentials.
            trio.ClosedResourceError: the connection was closed meanwhile.
        """
        if lost.number <= self._replaced:
            return
        if self._ended_by is not None:
            raise renewed(self._ended_by)
        if self._handshake is None:
            handshake = _Handshake()
            if not self._start_soon(self._run, handshake, lost):
                raise trio.ClosedResourceError("the connection was closed")
            self._handshake = handshake
        handshake = self._handshake
        await handshake.is_over.wait()
        if handshake.error is not None:
            raise renewed(handshake.error) if isinstance(handshake.error, MCPError) else handshake.error

    @trio.lowlevel.enable_ki_protection
    async def _run(self, handshake: _Handshake, lost: SessionLostError) -> None:
        try:
            await self._reinitialize()
        except AuthError as error:
            handshake.error = error
        except MCPError as error:
            reason = f"lost the session, and the new handshake failed: {getattr(error, 'reason', error)}"
            handshake.error = self._ended_by = lost.give_up(reason, getattr(error, "status", None))
        except Exception as error:  # noqa: BLE001 - raised by each caller that waits
            handshake.error = error
        else:
            handshake.error = None
            self._replaced = lost.number
        finally:
            self._handshake = None
            handshake.is_over.set()


class _Handshake:
    """One handshake that every caller waits for whose session was lost. Cancelled, it leaves the first error."""

    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.error: Exception | None = trio.ClosedResourceError("the connection was closed")


async def correct(
    refresh_tools: Callable[[], Awaitable[None]], version: str, method: str, error: RequestError
) -> bool:
    """Remove the cause of a modern server's error, if that can be; whether the request is to be made once more."""
    # server/tools: on HeaderMismatch a client "SHOULD" list the tools again, rebuild the headers and retry once.
    if error.code == HEADER_MISMATCH and method == "tools/call":
        try:
            await refresh_tools()
        except MCPError:
            return False
        return True
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return error.code == UNSUPPORTED_PROTOCOL_VERSION and isinstance(supported, list) and version in supported
