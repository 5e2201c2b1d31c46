"""Makes the requests of one connection: their params and `_meta`, the rounds in which a server asks back, counts.

Knows no method. How a request over HTTP is made once more after a failure is decided in recovery.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import attrs
import trio

from ...errors import MCPError, ProtocolError
from ...models.result import InputRequired
from ...protocol.messages import Encoded, Undecoded, joined
from ...redaction import Redactor
from ...tools.context import OnProgress
from ...transports.base import OnRawProgress, Transport
from ..limits import ClientLimits
from ..recovery import MakeHeaders, Recovery
from .headers import RequestHeaders
from .meta import RequestMeta, join_members

NO_PARAMS: Mapping[str, Any] = MappingProxyType({})

Read = TypeVar("Read")


@attrs.frozen(kw_only=True)
class Statistics:
    """Counts of one connection since it was opened.

    Calls are those of the program: tools and other requests, each once, however many rounds it took. A failed
    one has raised, a cancelled one included; a tool that ran and failed is done. Bytes are those of all messages.
    """

    calls_in_flight: int
    calls_done: int
    calls_failed: int
    bytes_in: int
    bytes_out: int
    late_answers: int
    skipped_lines: int


class Requests:
    """Makes requests over a transport.

    `answer_round` answers what a modern server asks before it can finish a call (given the questions, and the
    result as it came), and gives the encoded members of the next request; `progress_to` makes of `on_progress` the
    function that the transport calls. `meta` is replaced once the revision is agreed on; `headers` and `recovery`
    are there over HTTP alone, `headers` only in the modern era.
    """

    def __init__(
        self,
        answer_round: Callable[[InputRequired, bytes], Awaitable[bytes]],
        progress_to: Callable[[OnProgress], OnRawProgress],
        redactor: Redactor,
        limits: ClientLimits,
    ) -> None:
        self.meta: RequestMeta = RequestMeta()
        self.headers: RequestHeaders | None = None
        self.recovery: Recovery | None = None
        self._answer_round = answer_round
        self._progress_to = progress_to
        self._redactor = redactor
        self._limits = limits
        self._transport: Transport
        self._tokens = itertools.count(1)
        self._in_flight = self._done = self._failed = 0

    def attach(self, transport: Transport) -> None:
        """Use this transport."""
        self._transport = transport

    async def send(self, method: str, members: bytes, *, long_lived: bool = False) -> bytes:
        """A request of the package's own, whose params have these encoded members (without braces).

        Returns its result, undecoded. `long_lived` is as in `Transport.request`.
        """
        headers = None if self.headers is None else partial(self.headers.of, method, NO_PARAMS)
        try:
            return bytes(await self._send(method, members, method, None, None, headers, long_lived=long_lived))
        except MCPError as error:
            error.redact(self._redactor)
            raise

    def _send(
        self,
        method: str,
        members: Encoded,
        name: str,
        meta: Mapping[str, Any] | None,
        on_progress: OnProgress | None,
        headers: MakeHeaders | None,
        *,
        long_lived: bool = False,
    ) -> Awaitable[Undecoded]:
        """The awaitable of one request. No coroutine of its own: each is held for as long as it waits."""
        token, deliver = None, None
        if on_progress is not None:
            token, deliver = next(self._tokens), self._progress_to(on_progress)
        params = self.meta.params(members, name, given=meta, token=token)
        if self.recovery is None:
            return self._transport.request(
                method, params, progress_token=token, on_progress=deliver, long_lived=long_lived
            )
        return self.recovery.request(
            self._transport,
            method,
            params,
            headers,
            progress_token=token,
            on_progress=deliver,
            long_lived=long_lived,
        )

    async def call(
        self,
        method: str,
        members: Encoded,
        name: str,
        read: Callable[[Undecoded], Read | InputRequired],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
        headers: MakeHeaders | None = None,
    ) -> Read:
        """A request of the program's: counted, and made again with answers for as long as the server asks back.

        `name` stands in errors about `meta`; the result is what `read` makes of it.

        Raises:
            ProtocolError: this is no answer; or the server asks for something that is not offered, or too often.
        """
        self._in_flight += 1
        try:
            try:
                pending = self._send(method, members, name, meta, on_progress, headers)
            except Exception:  # `meta` or `on_progress` is wrong: nothing was sent
                await trio.lowlevel.checkpoint()
                raise
            data = await pending
            result = read(data)
            rounds = 0
            while isinstance(result, InputRequired):
                rounds += 1
                again = await self._answered(members, result, bytes(data), rounds)
                data = await self._send(method, again, name, meta, on_progress, headers)
                result = read(data)
        except BaseException as error:
            self._failed += 1
            if isinstance(error, MCPError):
                error.redact(self._redactor)
            raise
        finally:
            self._in_flight -= 1
        self._done += 1
        return result

    async def _answered(self, members: Encoded, required: InputRequired, data: bytes, rounds: int) -> bytes:
        """The members of the next round (basic/patterns/mrtr): those of the first, and the answers."""
        if rounds > self._limits.max_rounds:
            raise ProtocolError(f"the server asks for input again after {self._limits.max_rounds} rounds", data)
        if not required.requests:  # the server asks for time, not for input
            await trio.sleep(self._limits.round_pause * 2.0 ** min(rounds - 1, 60))
        answers = await self._answer_round(required, data)
        return join_members(joined(members), answers)

    def statistics(self) -> Statistics:
        """Counts since the connection was opened."""
        counted = self._transport.statistics()
        return Statistics(
            calls_in_flight=self._in_flight,
            calls_done=self._done,
            calls_failed=self._failed,
            bytes_in=counted.bytes_in,
            bytes_out=counted.bytes_out,
            late_answers=counted.late_answers,
            skipped_lines=counted.skipped_lines,
        )
