"""What a tool can say to the client that called it: one `CallContext` for each era.

The eras differ in how a tool asks. A legacy client is asked over the same stream, and the tool waits. A modern one
is asked by *answering* the call with the question: the function is unwound (it sees a cancel), and runs again from
the top once the answer has come, with the earlier answers at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

import trio

from ..errors import NotOfferedError
from ..protocol.messages import decode_json, encode_any, is_id
from ..tools.context import LEVELS, OnProgress
from .request_state import digest

#: What a client must have declared to be asked something.
CAPABILITY_OF = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class Peer(Protocol):
    """The way back to the client that a request came from.

    `principal` is who the client is, where somebody has looked into that.
    """

    principal: Any

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification that belongs to the request."""

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client (legacy); its result, undecoded."""


class _Call:
    def __init__(
        self,
        peer: Peer,
        meta: Mapping[str, Any],
        client_info: Mapping[str, Any] | None,
        capabilities: Mapping[str, Any],
        level: str | None,
    ) -> None:
        self._peer = peer
        self.principal = peer.principal
        self.meta = meta
        self.client_info = client_info
        self._capabilities = capabilities
        self._level = level
        token = meta.get("progressToken")
        # basic/utilities/progress: a token is a string or an integer, as an id is.
        self.on_progress: OnProgress | None = self._progress if is_id(token) else None

    async def log(self, level: str, data: Any) -> None:
        # server/utilities/logging, 2026-07-28: nothing is sent unless the request asked for a level.
        if self._level in LEVELS and LEVELS.index(level) >= LEVELS.index(self._level):
            self._peer.notify("notifications/message", encode_any({"level": level, "data": data}))
        await trio.lowlevel.checkpoint()

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        params = {"progressToken": self.meta["progressToken"], "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._peer.notify("notifications/progress", encode_any(params))
        await trio.lowlevel.checkpoint()

    def _offers(self, method: str) -> bool:
        offered = self._capabilities.get(CAPABILITY_OF[method])
        if method == "elicitation/create" and isinstance(offered, dict):
            return not offered or "form" in offered  # client/elicitation: an empty object means forms
        return isinstance(offered, dict)


class LegacyCall(_Call):
    """A call of a session that began with `initialize`."""

    async def ask(self, method: str, params: Mapping[str, Any], key: str | None = None) -> Any:
        if not self._offers(method):
            await trio.lowlevel.checkpoint()
            raise NotOfferedError(CAPABILITY_OF[method])
        return decode_json(await self._peer.ask(method, encode_any(params)))


class ModernCall(_Call):
    """One round of a call. `answers` are those of earlier rounds, None for what was asked and not answered.

    `questions` and `missing` say, when the function has been unwound, what it wants to know, or which capability
    the client lacks for that. `scope` is where it runs.

    A question is known by what it asks: the answer to one never serves another, also where the function asks
    from several tasks, or asks something else when it runs again. One that the function names is known by that
    name: a client that knows it may answer before it is asked (`preset_answers`).
    """

    def __init__(self, *args: Any, answers: Mapping[str, Any], preset_answers: Mapping[str, Any]) -> None:
        super().__init__(*args)
        self._answers = dict(answers)
        self._preset_answers = preset_answers
        self.questions: dict[str, Any] = {}
        self.missing: str | None = None
        self.scope = trio.CancelScope()
        self._asked: Counter[str] = Counter()

    @property
    def state(self) -> dict[str, Any]:
        """What the next round has to know: the answers so far, and what is asked now."""
        known = {key: answer for key, answer in self._answers.items() if answer is not None}
        return {**known, **dict.fromkeys(self.questions)}

    async def ask(self, method: str, params: Mapping[str, Any], key: str | None = None) -> Any:
        if key is None:
            name = digest(method, params)[:16]
            self._asked[name] += 1
            key = f"{name}-{self._asked[name]}"
            answer = self._answers.get(key)
        else:
            answer = self._answers.get(key)
            if answer is None:
                answer = self._preset_answers.get(key)
        if isinstance(answer, dict):
            self._answers[key] = answer
            await trio.lowlevel.checkpoint()
            return answer
        if self._offers(method):
            self.questions[key] = {"method": method, "params": dict(params)}
        else:
            self.missing = self.missing or CAPABILITY_OF[method]
        self.scope.cancel()
        return await trio.sleep_forever()  # the function is unwound
