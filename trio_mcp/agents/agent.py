"""Agents as tools: `add_agent` publishes an agent on a server, and beside it the tools that it uses.

An agent is known here by its name, an async function of a prompt, and its tools; what it does with models is its
own business.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Protocol, get_args, get_origin

import attrs
import trio

from ..errors import ApprovalRequiredError, MCPError
from ..functions.decorators import tool as make_tool
from ..functions.signature import annotations_of
from ..models.result import ToolResult
from ..protocol.arguments import encode_arguments
from ..server.registry import ToolServer
from ..tools.awaiting import awaited
from ..tools.context import CallContext
from ..tools.failures import RaisedResult, failure_text, raise_unless_failure
from ..tools.policy import ToolCall, Wrapper, as_wrappers
from ..tools.tool import Arguments, Tool
from ..tools.wrapping import call_through

# MCP gives a tool no id of the call: wrappers are given a number.
_ids = itertools.count(1)


class AgentLike(Protocol):
    """An agent as `add_agent` takes it: an `Agent`, or any object with these members.

    `name` is the name of its tool, `run` an async function of the prompt, `tools` the tools that it uses, and
    `wrap` the wrappers around each call of these tools by a client.
    """

    @property
    def name(self) -> str: ...
    @property
    def run(self) -> Callable[[str], Awaitable[Any]]: ...
    @property
    def tools(self) -> Iterable[Tool]: ...
    @property
    def wrap(self) -> Iterable[Wrapper]: ...


def _as_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    if not isinstance(tools, Iterable):
        raise TypeError(f"tools: expected tools, got {type(tools).__name__}")
    return tuple(tools)


@attrs.frozen
class Agent:
    """An agent, as far as `add_agent` needs to know it.

    Args:
        name: the name of its tool.
        run: an async function of the prompt. A str is the agent's final text; anything else goes out as JSON, as
            text and as structured output. If it raises, the call fails with the exception's type and text.
        tools: the tools that it uses.
        wrap: async functions `(call, proceed) -> ToolResult` around each call of its tools by a client of the
            server, the outermost first; `await proceed(call)` goes on.

    Raises:
        TypeError: `run` is no function, or `tools` or `wrap` no sequence of tools or functions.

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
    that a client which cancels the call cancels the agent. Where `run` has a return type that `tool` takes, its
    schema is listed as that of the structured output, and a value of another type is a failed call.

    Each of the agent's tools goes through the agent's `wrap`, and then through the wrappers of its own policy. A
    tool that requires approval is listed, and answers each call with `tool "x" requires approval`: MCP has no
    channel for a yes. Of its policy only timeout and result cap are left out: those are the client's to choose.
    Tools whose names are there already are replaced; connected clients hear of the change once.

    Args:
        server: where to publish it.
        agent: an `Agent`, or an object with the members of one.
        description: what models read about the agent.

    Raises:
        TypeError: an argument or a member of the agent is of the wrong type; nothing was published.
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
    if not isinstance(server, ToolServer):
        raise TypeError(f"server: expected ToolServer, got {type(server).__name__}")
    if not all(hasattr(agent, member) for member in ("name", "run", "tools", "wrap")):
        raise TypeError(f"agent: expected Agent, got {type(agent).__name__}")
    for field, value in (("name", agent.name), ("description", description)):
        if not isinstance(value, str):
            raise TypeError(f"{field}: expected str, got {type(value).__name__}")
        if not value.strip():
            raise ValueError(f"{field}: is empty")
    if not callable(agent.run):
        raise TypeError(f"run: expected an async function, got {type(agent.run).__name__}")
    tools, wrap = _as_tools(agent.tools), as_wrappers(agent.wrap)
    for one in tools:
        if not isinstance(one, Tool):
            raise TypeError(f"tools: expected Tool, got {type(one).__name__}")
        if one.name == agent.name:
            raise ValueError(f"name: {agent.name!r} is that of one of the agent's tools too")
    server.add_tools(_agent_tool(agent, description), *(_exposed(one, wrap) for one in tools))


def _agent_tool(agent: AgentLike, description: str) -> Tool:
    """The tool that takes a prompt and runs the agent."""

    async def ask(prompt: str) -> Any:
        return await awaited("run", agent.run(prompt))

    make = make_tool(name=agent.name, description=description)
    found = make(ask)  # an error in here is about the name
    ask.__annotations__["return"] = _return_type(agent.run)
    try:
        return make(ask)
    except TypeError:  # the type has no schema: any value goes out as JSON
        return found


def _return_type(run: Callable[..., Any]) -> Any:
    """The type that an async function returns when it is awaited; Any where its annotations do not tell."""
    while isinstance(run, partial):
        run = run.func
    if not inspect.isroutine(run):
        run = type(run).__call__
    function = getattr(run, "__func__", run)
    if not inspect.isfunction(function):
        return Any
    try:
        annotation = annotations_of(function).get("return", Any)
    except TypeError:  # it names something that does not exist (yet)
        return Any
    if inspect.iscoroutinefunction(function):
        return annotation
    return get_args(annotation)[-1] if get_origin(annotation) in (Awaitable, Coroutine) else Any


def _exposed(tool: Tool, wrap: tuple[Wrapper, ...]) -> Tool:
    """An agent's tool as clients get it: itself, where nothing stands around it."""
    policy = tool.policy
    wrap = (*wrap, *policy.wrap)
    if not (wrap or policy.require_approval):
        return tool
    return attrs.evolve(
        tool, run=_Exposed(tool, wrap), policy=attrs.evolve(policy, require_approval=False, wrap=())
    )


@attrs.frozen
class _Exposed:
    """Runs a tool of an agent for a client."""

    tool: Tool
    wrap: tuple[Wrapper, ...]

    async def __call__(self, name: str, arguments: Arguments, context: CallContext) -> ToolResult:
        # Arguments that are no object are the client's mistake, and told as such, whatever stands around the tool.
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
        except BaseException as error:  # noqa: BLE001 - whatever wrappers raise
            await raise_unless_failure(error, ends=(SystemExit,))
            return RaisedResult(failure_text(error), is_error=True, error=error)
