"""What a running call can say to the client that sent it: one `CallContext` for each era.

The eras differ in how a tool asks. A legacy client is asked over the same stream, and the tool waits. A modern one
is asked by *answering* the call with the question: the function is unwound (it sees a cancel), and runs again from
the top once the answer has come, with the earlier answers at hand.

Knows no transport: a client is reached by the `Peer` of its request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import trio

from ...errors import NotOfferedError
from ...protocol.messages import decode_json, encode_any, is_id
from ...protocol.revisions import META_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL
from ...tools.context import CAPABILITY_OF, LEVELS, OnProgress
from ..feature import Request
from ..params import Params
from ..request_state import digest


class _Call:
    """What a call can say in either era. How a tool asks, each era adds."""

    def __init__(
        self,
        request: Request[Params],
        client_info: Mapping[str, Any] | None,
        capabilities: Mapping[str, Any],
        log_level: str | None,
    ) -> None:
        self._peer = request.peer
        self.principal: Any = request.peer.principal
        self.meta: Mapping[str, Any] = request.meta
        self.client_info = client_info
        self._capabilities = capabilities
        self._log_level = log_level
        token = request.meta.get("progressToken")
        # basic/utilities/progress: a token is a string or an integer, as an id is.
        self.on_progress: OnProgress | None = self._progress if is_id(token) else None

    async def log(self, level: str, data: Any) -> None:
        await trio.lowlevel.checkpoint()
        # server/utilities/logging, 2026-07-28: nothing is sent unless the request asked for a level.
        if self._log_level in LEVELS and LEVELS.index(level) >= LEVELS.index(self._log_level):
            self._peer.notify("notifications/message", encode_any({"level": level, "data": data}))

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()  # `Context.progress` has made a whole checkpoint
        params = {"progressToken": self.meta["progressToken"], "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._peer.notify("notifications/progress", encode_any(params))

    def _offers(self, method: str) -> bool:
        offered = self._capabilities.get(CAPABILITY_OF[method])
        if method == "elicitation/create" and isinstance(offered, dict):
            return not offered or "form" in offered  # client/elicitation: an empty object means forms
        return isinstance(offered, dict)


class LegacyCall(_Call):
    """A call of a client that began with `initialize`."""

    def __init__(self, request: Request[Params]) -> None:
        client = request.client
        super().__init__(request, client.client_info, client.capabilities, client.log_level)

    async def ask(self, method: str, params: Mapping[str, Any], key: str | None = None) -> Any:
        if not self._offers(method):
            await trio.lowlevel.checkpoint()
            raise NotOfferedError(CAPABILITY_OF[method])
        return decode_json(await self._peer.ask(method, encode_any(params)))


class ModernCall(_Call):
    """One round of a call.

    A question is known by what it asks: the answer to one never serves another, also where the function asks
    from several tasks, or asks something else when it runs again. A question that the function names is known by
    that name: a client that knows it may answer before it is asked.

    Attributes:
        scope: the function runs in it; cancelled once it has to be unwound.
        questions: what the function wants to know, by key, when it has been unwound.
        missing: the capability that the client would need to be asked, when it lacks one.

    Args:
        request: the request of this round.
        answers: those of earlier rounds, by key; None for a question that was asked and is not answered.
        preset_answers: what the client has answered in this round, asked or not.
    """

    def __init__(
        self, request: Request[Params], answers: Mapping[str, Any], preset_answers: Mapping[str, Any]
    ) -> None:
        meta = request.meta
        super().__init__(request, meta.get(META_CLIENT_INFO), meta[META_CAPABILITIES], meta.get(META_LOG_LEVEL))
        self._answers = dict(answers)
        self._preset_answers = preset_answers
        self.questions: dict[str, Any] = {}
        self.missing: str | None = None
        self.scope: trio.CancelScope = trio.CancelScope()
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
