"""One model turn: each of its calls is approved, carried out under its tool's policy, and becomes an outcome.

A failure in a call is its outcome; what ends the whole turn is a cancel, or what ends a program. This module knows
neither providers nor how the tools of a toolbox are found.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio
from attrs import define, field, frozen

from ..errors import NAME_SHOWN, ApprovalRequiredError, InvalidArgumentsError, UnknownToolError
from ..models.elicitation import OnElicit
from ..models.result import ToolResult
from ..nursery import is_of
from ..protocol.arguments import encode_arguments
from ..redaction import bounded_line
from ..tools.awaiting import awaited
from ..tools.failures import CallTimedOutError, raise_unless_failure
from ..tools.policy import ToolCall
from ..tools.tool import Tool
from ..tools.wrapping import call_through
from .outcome import ToolOutcome, cancelled, failed, refused, returned
from .sequence import SequentialCalls
from .turn_context import OnCallProgress, TurnContext

logger: logging.Logger = logging.getLogger("trio_mcp.tools")

#: An async function that says whether a call may run: True, False, or a text that says why not.
Approve = Callable[[ToolCall], Awaitable[bool | str]]

#: An async function that is told of each outcome.
OnOutcome = Callable[[ToolOutcome], Awaitable[None]]

#: These texts are short, and the library's own: a policy's cap is for what others say.
_NEVER_CUT = (CallTimedOutError, InvalidArgumentsError, UnknownToolError)

#: These end the program, not a call alone.
_ENDS = (KeyboardInterrupt, SystemExit)

_T = TypeVar("_T")


@define(eq=False)
class RunningCall:
    """One call of a turn, from the beginning of the turn until its outcome.

    Attributes:
        call: the call.
        tool: its tool; None where there is none of that name.
        scope: cancelling it ends this call alone.
        began: when the tool was called; None before.
        is_over: whether the call has its outcome.
    """

    call: ToolCall
    tool: Tool | None
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    began: float | None = None
    is_over: bool = False

    @property
    def seconds(self) -> float:
        """How long the tool has been running."""
        return 0.0 if self.began is None else trio.current_time() - self.began


@frozen
class Turn:
    """The functions that a program hands in for one turn, and the queue of its toolbox's sequential calls."""

    sequence: SequentialCalls
    approve: Approve | None
    on_progress: OnCallProgress | None
    on_outcome: OnOutcome | None
    on_elicit: OnElicit | None
    _telling: trio.Lock = field(factory=trio.Lock, init=False)

    async def settle(self, running: RunningCall) -> ToolOutcome:
        """Run one call to its outcome, and tell of it."""
        outcome = cancelled(running.call, 0.0)
        if not running.scope.cancel_called:
            with running.scope:
                outcome = await self._run(running)
            # A failure after the cancel comes out of tidying up.
            if running.scope.cancelled_caught or (running.scope.cancel_called and outcome.is_error):
                outcome = cancelled(running.call, running.seconds)
        running.is_over = True
        if self.on_outcome is not None:
            async with self._telling:
                told = await _attempt(partial(_call_async, "on_outcome", self.on_outcome, outcome))
            if isinstance(told, BaseException):
                name = bounded_line(str(outcome.name), NAME_SHOWN)
                logger.error('on_outcome failed for a call of tool "%s"', name, exc_info=told)
        return outcome

    async def _run(self, running: RunningCall) -> ToolOutcome:
        call, tool = running.call, running.tool
        if tool is None:
            return failed(call, UnknownToolError(call.name))
        if tool.policy.require_approval:
            outcome = await self._without_approval(call)
            if outcome is not None:
                return outcome
        if not tool.sequential:
            return await self._carry_out(running, tool)
        async with self.sequence.place():
            return await self._carry_out(running, tool)

    async def _without_approval(self, call: ToolCall) -> ToolOutcome | None:
        """The outcome of a call that may not run; None where it may."""
        try:
            encode_arguments(call.name, call.arguments)
        except InvalidArgumentsError as error:  # nobody should have to judge what cannot be called
            return failed(call, error)
        if self.approve is None:
            return failed(call, ApprovalRequiredError(call.name), pending=True)
        answer = await _attempt(partial(_ask, self.approve, call))
        if answer is True:
            return None
        return failed(call, answer) if isinstance(answer, BaseException) else refused(call, answer or "")

    async def _carry_out(self, running: RunningCall, tool: Tool) -> ToolOutcome:
        call, limit = running.call, tool.policy.max_result_bytes
        running.began = trio.current_time()
        context = TurnContext(call, self.on_progress, self.on_elicit)
        await trio.lowlevel.checkpoint()  # many calls of functions that never wait can be cancelled between two
        result = await _attempt(partial(_call_in_time, tool, call, context))
        seconds = running.seconds
        try:
            if isinstance(result, ToolResult):
                return returned(call, result, tool.render, limit, seconds)
        except Exception as error:  # noqa: BLE001 - what a wrapper has put into its result
            result = error
        logger.debug('tool "%s" failed', bounded_line(str(call.name), NAME_SHOWN), exc_info=result)
        return failed(call, result, limit=None if isinstance(result, _NEVER_CUT) else limit, seconds=seconds)


async def _ask(approve: Approve, call: ToolCall) -> bool | str:
    answer = await _call_async("approve", approve, call)
    if answer and answer is not True and not isinstance(answer, str):
        raise TypeError(f"approve: expected True, False or a text, got {type(answer).__name__}")
    return answer


async def _call_async(name: str, function: Callable[..., Awaitable[_T]], argument: object) -> _T:
    result: _T = await awaited(name, function(argument))
    return result


async def _call_in_time(tool: Tool, call: ToolCall, context: TurnContext) -> ToolResult:
    """The call with its wrappers, within the policy's timeout."""
    timeout = math.inf if tool.policy.timeout is None else tool.policy.timeout
    scope = trio.move_on_after(timeout)
    cause: Exception | None = None
    try:
        with scope:
            return await call_through(tool.policy.wrap, call, lambda call: tool.run(call.arguments, context))
    except Exception as error:
        if not scope.cancel_called:
            raise
        cause = error  # out of tidying up: that the call took too long came first
    raise CallTimedOutError(call.name, timeout) from cause


async def _attempt(work: Callable[[], Awaitable[_T]]) -> _T | BaseException:
    """What some user's code returns, or the failure that it raised; a cancel and what ends a program pass."""
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - becomes a tool text
        return error
    except BaseException as error:
        cancels, failures = error.split(trio.Cancelled) if isinstance(error, BaseExceptionGroup) else (None, None)
        if cancels is None or is_of(error, _ENDS):
            await raise_unless_failure(error, ends=_ENDS)
            return error
        if trio.current_effective_deadline() > -math.inf:  # a cancel that was meant for another task
            return error
        # The call has no outcome any more that could tell what went wrong in tidying up.
        logger.debug("a call failed while it was cancelled", exc_info=failures)
        raise cancels from None
