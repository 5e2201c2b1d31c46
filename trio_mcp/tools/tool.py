"""`Tool`: one tool that can be called, be it a server's or a Python function.

A server's tool knows its connection as a `ToolCaller`, so that any connection will do. Arguments are not validated
here: the server does that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

from attrs import evolve, field, frozen

from ..errors import InvalidArgumentsError, ToolError, UnknownToolError
from ..models.result import ToolResult
from ..models.tool import ToolAnnotations, ToolSpec
from ..protocol.revisions import META_PREFIX
from .context import CallContext, LocalCall, OnProgress
from .naming import tool_name
from .policy import NO_POLICY, Policy
from .rendering import Render, text_alone, text_beside_images

#: The arguments of a call: a mapping of JSON values, raw JSON as a model produced it, or None for none.
Arguments = Mapping[str, Any] | str | bytes | bytearray | memoryview | None


class ToolCaller(Protocol):
    """A connection, as far as a server's tool needs it: `name` is the server's own name for the tool."""

    async def call_tool(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult: ...


class _Run(Protocol):
    """Runs one tool; `name` is the name that the caller used, for errors."""

    async def __call__(self, name: str, arguments: Arguments, context: CallContext) -> ToolResult: ...


@frozen
class Tool:
    """A tool that can be called: a server's, or a Python function.

    Attributes:
        name: the name that agents use, such as `mcp__time__get_current_time`.
        description: the text that models read about it.
        spec: the tool as its server lists it, unknown fields kept.
        policy: the application's decisions about it.
        function: the undecorated function of a local tool, else None.
    """

    name: str
    description: str
    spec: ToolSpec
    _run: _Run = field(repr=False, hash=False)
    policy: Policy = NO_POLICY
    function: Callable[..., Any] | None = field(default=None, repr=False)
    _origin: str = field(default="mcp", repr=False, alias="origin")
    _render: Render = field(default="content", repr=False, alias="render")

    @property
    def title(self) -> str | None:
        """A name for people: the tool's `title`, else the one in its annotations, else None."""
        return self.spec.title if self.spec.title is not None else self.spec.annotations.title

    @property
    def input_schema(self) -> dict[str, Any]:
        """The schema of its arguments, with `"type": "object"` added where the root has no type."""
        schema = self.spec.input_schema
        return schema if "type" in schema else {"type": "object", **schema}

    @property
    def input_schema_json(self) -> bytes:
        """The same schema as the server sent it, byte for byte."""
        return self.spec.input_schema_json

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of its structured output, where that is an object schema."""
        return self.spec.output_schema

    @property
    def annotations(self) -> ToolAnnotations:
        """The server's hints, such as whether the tool only reads."""
        return self.spec.annotations

    @property
    def remote_name(self) -> str:
        """The name that the server itself uses."""
        return self.spec.name

    @property
    def origin(self) -> str:
        """Where it comes from: "mcp", "local", or what its policy says."""
        return self._origin if self.policy.origin is None else self.policy.origin

    @property
    def render(self) -> Render:
        """Which part of a result becomes its text: see `Policy`."""
        return self._render if self.policy.render is None else self.policy.render

    @property
    def sequential(self) -> bool:
        """Whether it runs alone: unless it is marked read-only, and always where the policy says so."""
        return self.policy.sequential or not self.annotations.read_only_hint

    async def call(self, arguments: Arguments, *, on_progress: OnProgress | None = None) -> ToolResult:
        """Call the tool. A tool that failed is a result with `is_error`; a broken server raises.

        There is no timeout parameter: use `trio.fail_after`, which also tells the server.

        Args:
            arguments: a mapping of JSON values; JSON text or bytes, which are forwarded as they are; or None.
            on_progress: an async function `(progress, total, message)`, run in this task.

        Raises:
            InvalidArgumentsError: the arguments are no JSON object; nothing was sent.
            RequestError, ProtocolError, ServerStoppedError, AuthError, trio.ClosedResourceError: as
                `Connection.call_tool`; a local tool raises none of them.

        Example:
            >>> import trio
            >>> from trio_mcp import tool
            >>> @tool
            ... def double(number: int) -> int:
            ...     return 2 * number
            >>> trio.run(double.call, {"number": 4}).structured
            8
        """
        return await self.run(arguments, LocalCall(on_progress))

    async def run(self, arguments: Arguments, context: CallContext) -> ToolResult:
        """Call the tool for somebody else: `context` is how that one is spoken to. What `ToolServer` does.

        Where the tool is a function that never waits, this can be cancelled but lets no other task run: a server
        has made a task for the call.
        """
        return await self._run(self.name, arguments, context)

    async def invoke(self, arguments: Arguments) -> str:
        """Call the tool and return its text: what a `Toolbox` tells a model, with a line for each image.

        Which text that is, the tool's origin or its `Policy.render` says.

        Raises:
            ToolError: the tool failed; the text is what it said.
            Exception: everything that `call` raises.

        Example:
            >>> import trio
            >>> from trio_mcp import tool
            >>> @tool
            ... def double(number: int) -> int:
            ...     return 2 * number
            >>> trio.run(double.invoke, '{"number": 4}')
            '8'
        """
        result = await self.call(arguments)
        if result.is_error:
            raise ToolError(text_beside_images(result, self.render), result)
        return text_alone(result, self.render)

    def with_policy(self, policy: Policy) -> Self:
        """The same tool under another policy, which takes the place of the one it had.

        Raises:
            TypeError: this is no `Policy`.

        Example:
            >>> from trio_mcp import tool
            >>> @tool
            ... def pay(amount: int) -> None:
            ...     "Send money."
            >>> pay.with_policy(Policy(require_approval=True, timeout=30)).policy.timeout
            30
        """
        if not isinstance(policy, Policy):
            raise TypeError(f"policy: expected Policy, got {type(policy).__name__}")
        return evolve(self, policy=policy)


@frozen
class _Remote:
    """Runs a tool of a server."""

    caller: ToolCaller
    remote_name: str

    async def __call__(self, name: str, arguments: Arguments, context: CallContext) -> ToolResult:
        meta = {key: value for key, value in context.meta.items() if not _is_of_one_hop(key)} or None
        try:
            return await self.caller.call_tool(
                self.remote_name, arguments, on_progress=context.on_progress, meta=meta
            )
        except InvalidArgumentsError as error:
            if error.name != self.remote_name:
                raise  # another call's, out of on_progress
            raise InvalidArgumentsError(name, error.reason) from error.__cause__
        except UnknownToolError as error:
            if error.name != self.remote_name:
                raise
            raise UnknownToolError(name) from error.__cause__


def _is_of_one_hop(key: str) -> bool:
    """Whether a member of a request's `_meta` is about that request alone (basic, "_meta").

    The others, a trace context among them, are for the server that does the work in the end.
    """
    return key == "progressToken" or key.startswith(META_PREFIX)


def imported_tool(spec: ToolSpec, caller: ToolCaller, name: str, policy: Policy) -> Tool:
    """A server's tool under a name of the application's choice, with the server's own description."""
    return Tool(name, spec.description or "", spec, _Remote(caller, spec.name), policy, render="structured")


def remote_tool(spec: ToolSpec, caller: ToolCaller, server_name: str) -> Tool:
    """A server's tool as an agent sees it: named by `tool_name`, with a description that says whose it is."""
    origin = f"Tool {spec.name} from the MCP server {server_name}."
    return Tool(
        tool_name(server_name, spec.name),
        f"{origin} {spec.description}" if spec.description else origin,
        spec,
        _Remote(caller, spec.name),
    )
