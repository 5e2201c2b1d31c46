"""Toolbox: the tools that one agent uses, and one model turn of calls to them, under their policies.

Knows no connection: a tool is a `Tool`. How a call becomes its outcome is the business of `turn`, and the shapes
of the providers' APIs that of `providers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import trio

from ..errors import UnknownToolError
from ..models.elicitation import OnElicit
from ..nursery import bare_nursery
from ..tools.naming import nearest_names
from ..tools.policy import ToolCall
from ..tools.tool import Tool
from .outcome import ToolOutcome
from .providers import lookup
from .providers.lookup import Provider, Unsupported
from .sequence import SequentialCalls
from .turn import Approve, OnOutcome, RunningCall, Turn
from .turn_context import OnCallProgress


class Toolbox:
    """Tools under unique names, and what runs a model's calls of them.

    `toolbox[name]` is the tool of that name, or the one tool that its server knows under that name;
    `UnknownToolError` names the nearest. Iterating gives the tools.

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
        >>> toolbox["double"].sequential
        False
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
        self._sequence = SequentialCalls()
        # The calls of all turns that run now.
        self._running: set[RunningCall] = set()

    def __repr__(self) -> str:
        return f"<Toolbox of {len(self._tools)} tools>"

    def __getitem__(self, name: str) -> Tool:
        if not isinstance(name, str):
            raise TypeError(f"name: expected str, got {type(name).__name__}")
        found = self._tools.get(name)
        if found is not None:
            return found
        named = [tool for tool in self._tools.values() if tool.remote_name == name]
        if len(named) == 1:
            return named[0]
        # Where several servers have a tool of that name, each of them may be meant.
        nearest = [tool.name for tool in named] or nearest_names(
            name, [*self._tools, *(tool.remote_name for tool in self._tools.values())]
        )
        raise UnknownToolError(name, nearest)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._tools

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order in which they were given."""
        return tuple(self._tools.values())

    async def run(
        self,
        calls: Iterable[ToolCall],
        *,
        approve: Approve | None = None,
        on_progress: OnCallProgress | None = None,
        on_outcome: OnOutcome | None = None,
        on_elicit: OnElicit | None = None,
    ) -> list[ToolOutcome]:
        """Run one model turn of calls, each under its tool's `Policy`, and wait for all of them.

        Parallel-safe tools run side by side. Sequential ones run one at a time, in the order of the calls, beside
        the others; two runs of one toolbox take turns. What a sequential call itself runs in the same toolbox
        belongs to its turn.

        A cancel ends all of it; `cancel` ends a single call.

        Args:
            calls: what the model asked for.
            approve: async `(call) -> bool | str`, asked before each call whose policy demands it. True lets it
                run; False, or a text that says why not, makes it `refused`. Sequential calls ask when it is their
                turn, and hold up no other run meanwhile; the others ask at once, side by side. Without `approve`
                such calls are `pending`.
            on_progress: async `(call, progress, total, message)`, for the progress that a tool tells of, in the
                task of its call. What it raises, the call fails with.
            on_outcome: async `(outcome)`, told of each outcome as soon as it is there, one at a time. The next
                sequential call begins after that. What it raises is logged (`trio_mcp.tools`, ERROR), and costs no
                outcome: the calls have been made.
            on_elicit: async `(request) -> ElicitResult`, for the questions that tools of this process ask their
                user (`Context.elicit`); without it they get NotOfferedError. It does not reach a tool of a server:
                the `on_elicit` of its connection answers those.

        Returns:
            An outcome for each call, in the order of the calls. Every failure is an outcome with `is_error`.

        Raises:
            TypeError: something is no `ToolCall`, or one of the functions none; nothing has run.

        Example:
            >>> from trio_mcp import Context, Policy, tool
            >>> @tool(policy=Policy(require_approval=True))
            ... async def pay(amount: int, context: Context) -> str:
            ...     await context.progress(1, 2, "at the bank")
            ...     return f"paid {amount}"
            >>> async def approve(call):
            ...     return True if call.arguments["amount"] < 100 else "too much"
            >>> async def on_progress(call, progress, total, message):
            ...     print(call.id, message)
            >>> async def turn():
            ...     calls = [ToolCall("1", "pay", {"amount": 9}), ToolCall("2", "pay", {"amount": 900})]
            ...     return await Toolbox([pay]).run(calls, approve=approve, on_progress=on_progress)
            >>> [outcome.content for outcome in trio.run(turn)]
            1 at the bank
            ['paid 9', 'the user refused: too much']
        """
        if not isinstance(calls, Iterable):
            raise TypeError(f"calls: expected several ToolCall values, got {type(calls).__name__}")
        wanted = list(calls)
        for call in wanted:
            if not isinstance(call, ToolCall):
                raise TypeError(f"calls: expected ToolCall, got {type(call).__name__}")
        functions = {"approve": approve, "on_progress": on_progress, "on_outcome": on_outcome}
        for name, function in {**functions, "on_elicit": on_elicit}.items():
            if function is not None and not callable(function):
                raise TypeError(f"{name}: expected an async function, got {type(function).__name__}")
        await trio.lowlevel.checkpoint_if_cancelled()
        turn = Turn(self._sequence, approve, on_progress, on_outcome, on_elicit)
        running = [RunningCall(call, self._find(call.name)) for call in wanted]
        outcomes: dict[RunningCall, ToolOutcome] = {}

        async def settle(*some: RunningCall) -> None:
            for one in some:
                outcomes[one] = await turn.settle(one)

        in_order = [one for one in running if one.tool is not None and one.tool.sequential]
        at_once = [one for one in running if one.tool is None or not one.tool.sequential]
        self._running.update(running)
        try:
            async with bare_nursery() as nursery:
                if in_order:
                    nursery.start_soon(settle, *in_order)
                for one in at_once:
                    nursery.start_soon(settle, one)
        finally:
            self._running.difference_update(running)
        return [outcomes[one] for one in running]

    def cancel(self, call_id: str) -> bool:
        """End one call of a turn that is running, and nothing else of it: its outcome is the text `cancelled`.

        May be called from any task. A call that waits for approval or for its turn does not run; the server of a
        tool that runs is told, as by any cancel. Of several calls with that id, all are ended.

        Args:
            call_id: the `ToolCall.id`.

        Returns:
            Whether there was such a call without an outcome.

        Example:
            >>> from trio_mcp import tool
            >>> @tool
            ... async def wait() -> None:
            ...     toolbox.cancel("1")
            ...     await trio.sleep_forever()
            >>> toolbox = Toolbox([wait])
            >>> [outcome.content for outcome in trio.run(toolbox.run, [ToolCall("1", "wait")])]
            ['cancelled']
        """
        found = [one for one in self._running if one.call.id == call_id and not one.is_over]
        for one in found:
            one.scope.cancel()
        return bool(found)

    def _find(self, name: Any) -> Tool | None:
        return self._tools.get(name) if isinstance(name, str) else None

    def definitions(self, provider: Provider, unsupported: Unsupported = "mend") -> list[dict[str, Any]]:
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
