"""Tools: their listing and their calls (server/tools)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Raw

from ...errors import InvalidArgumentsError, ProtocolError, RequestError
from ...models.result import ToolResult
from ...protocol.headers import HeaderParameter, header_parameters
from ...protocol.messages import INVALID_PARAMS, decode_json
from ...protocol.revisions import Era
from ...tools.context import CallContext
from ...tools.failures import failure_text, without_strays
from ...tools.tool import Tool
from ..calls.call_context import LegacyCall, ModernCall
from ..calls.multi_round import RoundParams, begin_round
from ..feature import Feature, Method, Request, Work
from ..params import Params
from ..registry import TOOLS_CHANGED, ToolServer
from .tool_listing import page
from .tool_results import encode_result

# --- tools/list


class ListParams(Params):
    """The params of `tools/list`."""

    cursor: Any = None


def _list(request: Request[ListParams]) -> bytes:
    cursor = request.params.cursor
    if cursor is not None and not isinstance(cursor, str):
        raise RequestError(INVALID_PARAMS, "cursor: expected a string")
    found = page(request.server, cursor, request.era)
    if found is None:
        raise RequestError(INVALID_PARAMS, "cursor: not one of this server's")
    return found


# --- tools/call


class CallParams(RoundParams):
    """The params of `tools/call`. The arguments stay the bytes that came."""

    name: Any = None
    arguments: Raw = Raw()

    @property
    def has_object(self) -> bool:
        """Whether the arguments are an object, or absent, or null: what a tool can be called with."""
        arguments = bytes(self.arguments)
        return not arguments or arguments[:1] == b"{" or arguments == b"null"


def _call_legacy(request: Request[CallParams]) -> Work:
    return partial(_run, _tool(request), request, LegacyCall(request))


def _call_modern(request: Request[CallParams]) -> Work:
    return begin_round(request, partial(_run, _tool(request), request), partial(_same_call, request.params))


def _tool(request: Request[CallParams]) -> Tool:
    name = request.params.name
    if not isinstance(name, str):
        raise RequestError(INVALID_PARAMS, "name: expected a string")
    tool = request.server.find(name)
    if tool is None:
        raise RequestError(INVALID_PARAMS, f'unknown tool "{name}"')
    return tool


async def _run(tool: Tool, request: Request[CallParams], call: LegacyCall | ModernCall) -> bytes:
    return encode_result(await _result_of(tool, request.params, call), request.era, request.server)


async def _result_of(tool: Tool, params: CallParams, call: CallContext) -> ToolResult:
    """Run a tool. Every failure of it is a result, but for arguments that are no object."""
    try:
        return await tool.run(bytes(params.arguments), call)
    except InvalidArgumentsError as error:
        if not params.has_object:
            raise RequestError(INVALID_PARAMS, str(error)) from error
        return ToolResult(str(error), is_error=True)
    except BaseException as raised:
        failure = without_strays(raised)
        others = failure.split((Exception, SystemExit))[1] if isinstance(failure, BaseExceptionGroup) else failure
        # A function that was written for a command line ends its program. Here it would end it for every client.
        # An Exception is a remote tool's: of its connection, or of a user's `headers`.
        if not (others is None or isinstance(others, Exception | SystemExit)):
            raise
        return ToolResult(failure_text(failure), is_error=True)


def _same_call(params: CallParams) -> Sequence[Any]:
    """The tool and its arguments, equal for every spelling of them."""
    arguments = bytes(params.arguments)
    try:
        return params.name, decode_json(arguments) or {} if arguments else {}
    except ProtocolError:
        return params.name, arguments


# --- the headers of a modern call


def _header_params(server: ToolServer, params: CallParams) -> Iterable[tuple[str, Any]]:
    """The arguments that the tool wants to see in headers, too (server/tools, "x-mcp-header")."""
    tool = server.find(params.name) if isinstance(params.name, str) else None
    if tool is None:
        return ()
    parameters = server.derived(("x-mcp-header", tool.name), partial(_parameters_of, tool))
    return _values(parameters, params) if parameters else ()


def _parameters_of(tool: Tool) -> tuple[HeaderParameter, ...]:
    try:
        return header_parameters(tool.input_schema)
    except ValueError:  # no client of this era uses such a tool, and none can know its headers
        return ()


def _values(parameters: Iterable[HeaderParameter], params: CallParams) -> Iterator[tuple[str, Any]]:
    try:
        arguments = decode_json(bytes(params.arguments) or b"{}")
    except ProtocolError:
        arguments = None
    for parameter in parameters:
        value: Any = arguments
        for step in parameter.path:
            value = value.get(step) if isinstance(value, dict) else None
        yield parameter.header, value


def _capabilities(server: ToolServer, era: Era) -> Mapping[str, Any]:
    return {"tools": {"listChanged": True}}


TOOLS = Feature(
    methods=(
        Method(name="tools/list", params=ListParams, legacy=_list, modern=_list),
        Method(
            name="tools/call",
            params=CallParams,
            legacy=_call_legacy,
            modern=_call_modern,
            counts_as="call",
            mcp_name=lambda params: params.name,
            header_params=_header_params,
        ),
    ),
    capabilities=_capabilities,
    topics=(TOOLS_CHANGED,),
)
