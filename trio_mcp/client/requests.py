"""The requests of one connection: their params and `_meta`, the rounds in which a server asks back, the counts."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import attrs
import trio

from ..errors import ProtocolError, RequestError
from ..models.result import InputRequired
from ..protocol.messages import Encoded, Undecoded, joined
from ..redaction import Redactor
from ..tools.context import OnProgress
from ..transports.base import NO_HEADERS, Transport
from .features.elicitation import MAX_ROUNDS, Elicitor
from .headers import RequestHeaders
from .inbound import Inbound
from .meta import RequestMeta

#: Seconds before a request is made again whose server only said "ask again"; doubled each time.
FIRST_PAUSE = 0.1

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
    """Makes requests over a transport. `meta` is replaced once the revision is agreed on."""

    def __init__(self, elicitor: Elicitor, inbound: Inbound, redactor: Redactor) -> None:
        self.meta = RequestMeta()
        #: What makes the headers of requests; only modern, over HTTP.
        self.headers: RequestHeaders | None = None
        #: Asked about each error of a request: whether its cause has been mended, so that once more is worth it.
        self.correct: Callable[[str, RequestError], Awaitable[bool]] | None = None
        self._elicitor = elicitor
        self._inbound = inbound
        self._redactor = redactor
        self._transport: Transport
        self._tokens = itertools.count(1)
        self._in_flight = self._done = self._failed = 0

    def attach(self, transport: Transport) -> None:
        """Use this transport."""
        self._transport = transport

    async def send(
        self,
        method: str,
        members: bytes,
        name: str,
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
        long_lived: bool = False,
    ) -> bytes:
        """One request whose params have these encoded members (without braces); its result, undecoded.

        `name` stands in errors about `meta`; `long_lived` is as in `Transport.request`.
        """
        try:
            return bytes(await self._asking(method, members, name, meta, on_progress, long_lived=long_lived))
        except ProtocolError as error:
            error.redact(self._redactor)
            raise

    def _asking(
        self,
        method: str,
        members: Encoded,
        name: str,
        meta: Mapping[str, Any] | None,
        on_progress: OnProgress | None,
        *,
        long_lived: bool = False,
    ) -> Awaitable[Undecoded]:
        """What is to be awaited for one request. No coroutine of its own: each is held for as long as it waits."""
        token, deliver = None, None
        if on_progress is not None:
            token, deliver = next(self._tokens), self._inbound.progress_to(on_progress)
        params = self.meta.params(members, name, given=meta, token=token)
        if self.headers is None and self.correct is None:
            return self._transport.request(
                method, params, progress_token=token, on_progress=deliver, long_lived=long_lived
            )
        return self._asking_with_headers(
            method, members, name, params, progress_token=token, on_progress=deliver, long_lived=long_lived
        )

    async def _asking_with_headers(
        self, method: str, members: Encoded, name: str, params: Encoded, **others: Any
    ) -> Undecoded:
        """Modern over HTTP: headers repeat what the body says, and an error about them may be mended, once."""
        is_first = True
        while True:
            headers = NO_HEADERS if self.headers is None else self.headers.of(method, members, name)
            try:
                return await self._transport.request(method, params, headers=headers, **others)
            except RequestError as error:
                if not is_first or self.correct is None or not await self.correct(method, error):
                    raise
            is_first = False

    async def call(
        self,
        method: str,
        members: Encoded,
        name: str,
        read: Callable[[Undecoded], Read | InputRequired],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> tuple[Undecoded, Read]:
        """A request of the program's: counted, and made again with answers for as long as the server asks back.

        Returns the result as sent, and as `read` reads it.

        Raises:
            ProtocolError: the answer is none; or what is asked for is not offered, or there is no end to it.
        """
        self._in_flight += 1
        try:
            data = await self._asking(method, members, name, meta, on_progress)
            result = read(data)
            rounds = 0
            while isinstance(result, InputRequired):
                rounds += 1
                again = await self._answered(members, result, bytes(data), rounds)
                data = await self._asking(method, again, name, meta, on_progress)
                result = read(data)
        except BaseException as error:
            self._failed += 1
            if isinstance(error, ProtocolError):
                error.redact(self._redactor)
            raise
        finally:
            self._in_flight -= 1
        self._done += 1
        return data, result

    async def _answered(self, members: Encoded, required: InputRequired, data: bytes, rounds: int) -> bytes:
        """The members of the next round (basic/patterns/mrtr): those of the first, and the answers."""
        if rounds > MAX_ROUNDS:
            raise ProtocolError(f"the server asks for input again after {MAX_ROUNDS} rounds", data)
        if not required.requests:  # it only wants to be asked again: it has much to do
            await trio.sleep(FIRST_PAUSE * 2 ** (rounds - 1))
        answers = await self._elicitor.answer_round(required, data)
        first = joined(members)
        return b"%b,%b" % (first, answers) if first and answers else first or answers

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
