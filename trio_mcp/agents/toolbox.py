"""Toolbox: the tools that one agent uses, and one model turn of calls to them, under their policies.

What goes wrong in a call becomes its outcome; what ends the whole turn is a cancel alone. Knows no connection and
no provider: a tool is a `Tool`, and `providers` speaks to models.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable
from typing import Any, TypeVar

import trio

from ..errors import ApprovalRequiredError, InvalidArgumentsError, UnknownToolError
from ..models.result import ToolResult
from ..nursery import bare_nursery
from ..protocol.arguments import encode_arguments
from ..tools.policy import ToolCall
from ..tools.tool import Tool
from ..tools.wrapping import call_through
from .outcome import ToolOutcome, failed, returned
from .providers import lookup

logger = logging.getLogger("trio_mcp.tools")

#: An async function that says whether a call may run.
Approve = Callable[[ToolCall], Awaitable[bool]]

_T = TypeVar("_T")


class Toolbox:
    """Tools under unique names, and what runs a model's calls of them.

    Args:
        tools: of any connections, and local ones.

    Raises:
        TypeError: something is no `Tool`.
        ValueError: two tools have one name; the text has the origin of both.

    Example:
        >>> from trio_mcp import ToolCall, tool
        >>> @tool(read_only=True)
        ... def double(number: int) -> int:
        ...     return 2 * number
        >>> toolbox = Toolbox([double])
        >>> async def turn():
        ...     return await toolbox.run([ToolCall("1", "double", '{"number": 4}'), ToolCall("2", "halve")])
        >>> [outcome.content for outcome in trio.run(turn)]
        ['8', 'unknown tool "halve"']
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        if not isinstance(tools, Iterable):
            raise TypeError(f"tools: expected several Tool values, got {type(tools).__name__}")
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise TypeError(f"tools: expected Tool, got {type(tool).__name__}")
            other = self._tools.get(tool.name)
            if other is not None:
                raise ValueError(f'tools: "{tool.name}" comes twice, from {other.origin} and from {tool.origin}')
            self._tools[tool.name] = tool
        self._lock = trio.Lock()

    def __repr__(self) -> str:
        return f"<Toolbox of {len(self._tools)} tools>"

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order in which they were given."""
        return tuple(self._tools.values())

    async def run(self, calls: Iterable[ToolCall], *, approve: Approve | None = None) -> list[ToolOutcome]:
        """Run one model turn of calls, each under its tool's `Policy`, and wait for all of them.

        Parallel-safe tools run side by side. Sequential ones run one at a time, in the order of the calls, beside
        the others; two runs of one toolbox take turns. What a sequential call itself runs in the same toolbox
        belongs to its turn.

        A cancel ends all of it. To end a single call, wrap its tool (`Policy.wrap`) in a cancel scope of yours.

        Args:
            calls: what the model asked for.
            approve: async `(call) -> bool`, asked before each call whose policy demands it: True lets it run.
                Sequential calls ask when it is their turn, and hold up no other run meanwhile; the others ask at
                once, side by side. Without it such calls are pending.

        Returns:
            An outcome for each call, in the order of the calls. Every failure is an outcome with `is_error`.

        Raises:
            TypeError: something is no `ToolCall`, or `approve` no function; nothing has run.
        """
        if not isinstance(calls, Iterable):
            raise TypeError(f"calls: expected several ToolCall values, got {type(calls).__name__}")
        turn = list(calls)
        for call in turn:
            if not isinstance(call, ToolCall):
                raise TypeError(f"calls: expected ToolCall, got {type(call).__name__}")
        if approve is not None and not callable(approve):
            raise TypeError(f"approve: expected an async function, got {type(approve).__name__}")
        await trio.lowlevel.checkpoint_if_cancelled()
        outcomes: dict[int, ToolOutcome] = {}

        async def settle(*places: int) -> None:
            for place in places:
                outcomes[place] = await self._settle(turn[place], approve)

        tools = [self._find(call.name) for call in turn]
        in_order = [place for place, tool in enumerate(tools) if tool is not None and tool.sequential]
        async with bare_nursery() as nursery:
            if in_order:
                nursery.start_soon(settle, *in_order)
            for place in sorted(set(range(len(turn))).difference(in_order)):
                nursery.start_soon(settle, place)
        return [outcomes[place] for place in range(len(turn))]

    def definitions(self, provider: Provider, *, unsupported: Unsupported = "mend") -> list[dict[str, Any]]:
        """The tools as a provider's API takes them.

        Args:
            provider: "anthropic", "openai" (chat completions), "openai-responses" or "mcp" (sampling).
            unsupported: what becomes of a tool whose schema the provider would refuse, and the whole request with
                it. "mend" changes the schema where the new one means the same, and else leaves the tool out;
                "skip" leaves the tool out; "raise" raises. The logger `trio_mcp.tools` warns of each tool that is
                left out. Members of a schema that are null are left out of it in any case.

        Raises:
            ValueError: the provider is unknown, or cannot tell two of the names apart; with "raise" also: it
                would refuse a schema.

        Example:
            >>> from trio_mcp import tool
            >>> @tool
            ... def double(number: int) -> int:
            ...     return 2 * number
            >>> Toolbox([double]).definitions("openai")[0]["function"]["name"]
            'double'
        """
        return lookup.definitions(provider, self.tools, unsupported)

    def calls(self, provider: Provider, message: Any) -> list[ToolCall]:
        """The calls that a provider's message asks for, with the names and raw arguments that `run` takes.

        Args:
            provider: as in `definitions`.
            message: the message of the provider's SDK, or the same as a dict.

        Raises:
            TypeError: the message is none of that provider's.
            ValueError: as in `definitions`.

        Example:
            >>> asked = {"type": "tool_use", "id": "1", "name": "double", "input": {"number": 4}}
            >>> Toolbox([]).calls("anthropic", {"role": "assistant", "content": [asked]})
            [ToolCall(id='1', name='double', arguments={'number': 4})]
        """
        return lookup.calls(provider, message, self.tools)

    def results(self, provider: Provider, outcomes: Iterable[ToolOutcome]) -> list[dict[str, Any]]:
        """The outcomes as what is appended to the conversation with a provider, images included.

        Args:
            provider: as in `definitions`.
            outcomes: what `run` returned.

        Raises:
            ValueError: the provider is unknown.

        Example:
            >>> Toolbox([]).results("openai", [ToolOutcome("1", "double", "8")])
            [{'role': 'tool', 'tool_call_id': '1', 'content': '8'}]
        """
        return lookup.results(provider, outcomes)

    # --- one call

    def _find(self, name: Any) -> Tool | None:
        return self._tools.get(name) if isinstance(name, str) else None

    async def _settle(self, call: ToolCall, approve: Approve | None) -> ToolOutcome:
        tool = self._find(call.name)
        if tool is None:
            return failed(call, UnknownToolError(call.name))
        if tool.policy.require_approval:
            try:
                encode_arguments(call.name, call.arguments)
            except InvalidArgumentsError as error:  # nobody should have to judge what cannot be called
                return failed(call, error)
            approved = await _attempt(partial(_ask, approve, call))
            if isinstance(approved, Exception):
                return failed(call, approved)
            if not approved:
                return failed(call, ApprovalRequiredError(call.name), pending=True)
        if not tool.sequential:
            return await _carry_out(tool, call)
        async with self._turn():
            return await _carry_out(tool, call)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for the turn of a sequential call.

        What such a call itself runs here must not wait for its own end: inside a turn there is a lock for that.
        """
        around = outer = _turns.get()
        while around is not None and (around.toolbox is not self or around.is_over):
            around = around.outer
        async with self._lock if around is None else around.lock:
            turn = _Turn(self, outer)
            token = _turns.set(turn)
            try:
                yield
            finally:
                turn.is_over = True
                _turns.reset(token)


class _Turn:
    """The turn of one sequential call. A task that outlives it still sees it, and must not profit."""

    def __init__(self, toolbox: Toolbox, outer: _Turn | None) -> None:
        self.toolbox = toolbox
        self.outer = outer
        self.lock = trio.Lock()
        self.is_over = False


_turns: ContextVar[_Turn | None] = ContextVar("trio_mcp turn", default=None)


class _TimedOutError(trio.TooSlowError):
    """The policy's timeout, not any other deadline."""


#: Short, and ours: the cap is for what others say.
_NEVER_CUT = (_TimedOutError, InvalidArgumentsError, UnknownToolError)


async def _ask(approve: Approve | None, call: ToolCall) -> bool:
    if approve is None:
        return False
    pending = approve(call)
    if not isawaitable(pending):
        raise TypeError(f"approve: expected an async function, this one returned {type(pending).__name__}")
    answer = await pending
    if answer and answer is not True:  # such as a "no" that somebody typed
        raise TypeError(f"approve: expected True or False, got {type(answer).__name__}")
    return bool(answer)


async def _carry_out(tool: Tool, call: ToolCall) -> ToolOutcome:
    limit = tool.policy.max_result_bytes
    began = trio.current_time()
    result = await _attempt(partial(_call_in_time, tool, call))
    seconds = trio.current_time() - began
    try:
        if isinstance(result, ToolResult):
            return returned(call, result, limit, seconds)
    except Exception as error:  # noqa: BLE001 - what a wrapper has put into its result
        result = error
    logger.debug('tool "%s" failed', call.name, exc_info=result)
    return failed(call, result, limit=None if isinstance(result, _NEVER_CUT) else limit, seconds=seconds)


async def _call_in_time(tool: Tool, call: ToolCall) -> ToolResult:
    """The call with its wrappers, within the policy's timeout."""
    timeout = tool.policy.timeout
    scope = trio.move_on_after(math.inf if timeout is None else timeout)
    cause: Exception | None = None
    try:
        with scope:
            return await call_through(tool.policy.wrap, call, lambda call: tool.call(call.arguments))
    except Exception as error:
        if not scope.cancel_called:
            raise
        cause = error  # out of tidying up: that it took too long came first
    raise _TimedOutError(f'tool "{call.name}" timed out after {timeout:.15g}s') from cause


async def _attempt(work: Callable[[], Awaitable[_T]]) -> _T | Exception:
    """What some user's code returns, or the exception that it raised; a cancel and what ends a program pass."""
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - becomes a tool text
        return error
    except BaseExceptionGroup as group:
        cancelled, failures = group.split(trio.Cancelled)
        if cancelled is None or (failures is not None and not isinstance(failures, Exception)):
            raise
        # The call has no outcome any more that could tell what went wrong in tidying up.
        logger.debug("a call failed while it was cancelled", exc_info=failures)
        raise cancelled from None
