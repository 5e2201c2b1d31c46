"""Agents as tools: what an agent is here, and how one is published with the tools that it uses.

Of an agent nothing is known but its name, an async function of a prompt, and its tools: what it does with models
is its own business.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import trio

from ..errors import ApprovalRequiredError, MCPError
from ..functions.decorators import tool as make_tool
from ..models.result import ToolResult
from ..protocol.arguments import encode_arguments
from ..tools.context import CallContext
from ..tools.failures import failure_text
from ..tools.policy import ToolCall, as_wrappers
from ..tools.tool import Arguments, Tool
from ..tools.wrapping import call_through

if TYPE_CHECKING:
    from ..server.registry import ToolServer
    from ..tools.policy import Wrapper

#: MCP gives tools no id of the call: wrappers are given a number.
_ids = itertools.count(1)


class AgentLike(Protocol):
    """What `add_agent` publishes: an `Agent`, or anything that has what an `Agent` has."""

    @property
    def name(self) -> str:
        """What its tool is called."""

    @property
    def tools(self) -> Iterable[Tool]:
        """The tools that it uses, which are published beside it."""

    @property
    def wrap(self) -> Iterable[Wrapper]:
        """What stands around each call of these tools."""

    @property
    def run(self) -> Callable[[str], Awaitable[Any]]:
        """An async function of the prompt."""


def _as_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    if not isinstance(tools, Iterable):
        raise TypeError(f"tools: expected tools, got {type(tools).__name__}")
    return tuple(tools)


@attrs.frozen
class Agent:
    """An agent, as far as `add_agent` needs to know it.

    Args:
        name: what its tool is called.
        run: an async function of the prompt. A str is the agent's final text; anything else goes out as JSON, as
            text and as structured output. What it raises is a failed call.
        tools: the tools that it uses.
        wrap: async functions `(call, proceed) -> ToolResult` around each call of its tools by a client of the
            server, the outermost first; `await proceed(call)` goes on.

    Raises:
        TypeError: `run` is no function, or `tools` or `wrap` no sequence of what they should be.

    Example:
        >>> async def answer(prompt):
        ...     return f"You said: {prompt}"
        >>> Agent("parrot", answer).name
        'parrot'
    """

    name: str
    run: Callable[[str], Awaitable[Any]] = attrs.field(validator=attrs.validators.is_callable())
    tools: tuple[Tool, ...] = attrs.field(default=(), kw_only=True, converter=_as_tools)
    wrap: tuple[Wrapper, ...] = attrs.field(default=(), kw_only=True, converter=as_wrappers)


def add_agent(server: ToolServer, agent: AgentLike, description: str) -> None:
    """Publish an agent as one tool, and the tools that it uses beside it (specification: server/tools).

    The agent's tool has its name and takes `{"prompt": string}`. It runs the agent in the task of the call, so
    that a client which cancels the call cancels the agent. Each of the agent's tools goes through the agent's
    `wrap`; one that requires approval is listed, and answers each call with `tool "x" requires approval`: MCP has
    no channel for a yes. Timeouts, result caps and wrappers of policies are not applied. Tools whose names are
    there already are replaced; connected clients hear of the change once.

    Args:
        server: where to publish it.
        agent: an `Agent`, or something like it.
        description: what models read about the agent.

    Raises:
        TypeError: something is of the wrong type; nothing was published.
        ValueError: the name or the description is empty, the name is no tool's name (`[A-Za-z0-9_.-]{1,64}`), it
            is that of one of the agent's tools, or two of these have one name; nothing was published.

    Example:
        >>> from trio_mcp import ToolServer
        >>> async def answer(prompt):
        ...     return f"You said: {prompt}"
        >>> server = ToolServer("zoo")
        >>> add_agent(server, Agent("parrot", answer), "Repeats what it hears.")
        >>> server.tools[0].input_schema["properties"]
        {'prompt': {'type': 'string'}}
    """
    for field, value in (("name", agent.name), ("description", description)):
        if not isinstance(value, str):
            raise TypeError(f"{field}: expected str, got {type(value).__name__}")
        if not value.strip():
            raise ValueError(f"{field}: is empty")

    async def ask(prompt: str) -> Any:
        pending: object = agent.run(prompt)
        if not isawaitable(pending):
            raise TypeError(f"run: expected an async function, this one returned {type(pending).__name__}")
        return await pending

    tools, wrap = _as_tools(agent.tools), as_wrappers(agent.wrap)
    for one in tools:
        if not isinstance(one, Tool):
            raise TypeError(f"tools: expected Tool, got {type(one).__name__}")
        if one.name == agent.name:
            raise ValueError(f"name: {agent.name!r} is that of one of the agent's tools too")
    server.add_tools(
        make_tool(name=agent.name, description=description)(ask), *(_exposed(one, wrap) for one in tools)
    )


def _exposed(tool: Tool, wrap: tuple[Wrapper, ...]) -> Tool:
    """An agent's tool as clients get it: itself, where nothing stands around it."""
    if not (wrap or tool.policy.require_approval):
        return tool
    return attrs.evolve(tool, run=_Exposed(tool, wrap), policy=attrs.evolve(tool.policy, require_approval=False))


@attrs.frozen
class _Exposed:
    """Runs a tool of an agent for a client."""

    tool: Tool
    wrap: tuple[Wrapper, ...]

    async def __call__(self, name: str, arguments: Arguments, context: CallContext) -> ToolResult:
        # What is no object is the client's mistake, and told as such, whatever stands around the tool.
        encoded = encode_arguments(name, arguments)
        if self.tool.policy.require_approval:
            await trio.lowlevel.checkpoint()
            return ToolResult(str(ApprovalRequiredError(name)), is_error=True)

        async def run(call: ToolCall) -> ToolResult:
            return await self.tool.run(call.arguments, context)

        try:
            return await call_through(self.wrap, ToolCall(str(next(_ids)), name, encoded), run)
        except (MCPError, trio.ClosedResourceError):
            raise  # as any remote tool does
        except Exception as error:  # noqa: BLE001 - whatever wrappers raise
            return ToolResult(failure_text(error), is_error=True)
