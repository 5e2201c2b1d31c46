"""trio_mcp: a trio-native library for the Model Context Protocol.

Start MCP servers, hand their tools to a model, call many at once; leaving a scope ends everything in it.

>>> import trio_mcp
>>> server = trio_mcp.Server("time", command="mcp-server-time", env=trio_mcp.default_environment())

Every public name is loaded when it is first used, so that `import trio_mcp` stays light.
"""

# The map of this tree, the lowest room first. A room imports rooms above it in this list, never one below it.
# docs/architecture.md shows the way of one call through them.
#
#   version, redaction   the version; what is never shown
#   nursery              a nursery whose errors leave bare
#   errors               every exception, and who is at fault
#   protocol/            sans-I/O: messages, framing, server-sent events, revisions, negotiation, raw arguments
#   models/              what crosses the wire, as values: servers, content blocks, tools as listed, results
#   http/                HTTP/1.1 by itself; knows no MCP
#   tools/               what a tool is: name, policy, context, the texts that models read
#   transports/          move requests and answers
#     lines/             one JSON message a line, over any two streams
#     stdio/             the same, to a process that it starts and stops
#     streamable/        MCP over HTTP
#   functions/           Python functions as tools: signature, types, docstring, result
#   client/              Connection: opening, negotiation, recovery
#     outgoing/          requests with their headers and `_meta`
#     incoming/          what a server sends unasked: notifications, questions
#     features/          one file for each feature of the protocol
#   server/              ToolServer, and dispatch, which looks methods up in the table of features
#     features/          one file for each feature of the protocol
#     calls/             what a running tool can say to its client, in both eras
#     http/              over HTTP: one request, both eras, sessions, bounds
#   agents/              Toolbox: a model's turn of calls; agents as tools; the formats of providers
#   memory               both ends in one process
#   config               the mcpServers JSON that every MCP host reads
#   gateway              many servers behind one ToolServer
#   demo, testing/       a server to try; for users' tests
#   cli/, __main__       the command line

from __future__ import annotations

from typing import TYPE_CHECKING

from .version import __version__ as __version__

__all__ = [
    "Agent",
    "AgentLike",
    "ApprovalRequiredError",
    "Approve",
    "Audio",
    "AuthError",
    "ClientLimits",
    "Connection",
    "Connections",
    "Context",
    "ElicitRequest",
    "ElicitResult",
    "EmbeddedResource",
    "ExchangeError",
    "GatewayLimits",
    "Http1Transport",
    "HttpApp",
    "Icon",
    "Image",
    "ImportedTools",
    "InvalidArgumentsError",
    "InvalidServerError",
    "LineLimits",
    "LoadedServers",
    "LocalTool",
    "LogLevel",
    "MCPError",
    "NotOfferedError",
    "OnCallProgress",
    "OnElicit",
    "OnLog",
    "OnOutcome",
    "OnProgress",
    "Policy",
    "PoolLimits",
    "Proceed",
    "ProcessLimits",
    "ProtocolChoice",
    "ProtocolError",
    "Provider",
    "Render",
    "RequestError",
    "ResourceLink",
    "Server",
    "ServerLimits",
    "ServerStartError",
    "ServerStoppedError",
    "SkippedToolError",
    "Statistics",
    "StreamableLimits",
    "Text",
    "Tool",
    "ToolAnnotations",
    "ToolCall",
    "ToolError",
    "ToolImportError",
    "ToolOutcome",
    "ToolResult",
    "ToolServer",
    "ToolSpec",
    "ToolWatch",
    "Toolbox",
    "TypedToolResult",
    "Unauthorized",
    "UnknownBlock",
    "UnknownToolError",
    "Wrapper",
    "__version__",
    "add_agent",
    "asgi_app",
    "connect",
    "default_environment",
    "import_tools",
    "is_tool_name",
    "load_servers",
    "open_connection",
    "open_connections",
    "open_gateway",
    "open_memory_connection",
    "raw_tool",
    "serve_http",
    "serve_stdio",
    "tool",
    "tool_name",
]

if TYPE_CHECKING:
    from .agents.agent import Agent as Agent
    from .agents.agent import AgentLike as AgentLike
    from .agents.agent import add_agent as add_agent
    from .agents.outcome import ToolOutcome as ToolOutcome
    from .agents.providers.lookup import Provider as Provider
    from .agents.toolbox import Toolbox as Toolbox
    from .agents.turn import Approve as Approve
    from .agents.turn import OnOutcome as OnOutcome
    from .agents.turn_context import OnCallProgress as OnCallProgress
    from .client.connection import Connection as Connection
    from .client.features.log_messages import OnLog as OnLog
    from .client.features.tool_watch import ToolWatch as ToolWatch
    from .client.limits import ClientLimits as ClientLimits
    from .client.opening import Connections as Connections
    from .client.opening import connect as connect
    from .client.opening import open_connection as open_connection
    from .client.opening import open_connections as open_connections
    from .client.outgoing.requests import Statistics as Statistics
    from .config import LoadedServers as LoadedServers
    from .config import load_servers as load_servers
    from .errors import ApprovalRequiredError as ApprovalRequiredError
    from .errors import AuthError as AuthError
    from .errors import ExchangeError as ExchangeError
    from .errors import InvalidArgumentsError as InvalidArgumentsError
    from .errors import InvalidServerError as InvalidServerError
    from .errors import MCPError as MCPError
    from .errors import NotOfferedError as NotOfferedError
    from .errors import ProtocolError as ProtocolError
    from .errors import RequestError as RequestError
    from .errors import ServerStartError as ServerStartError
    from .errors import ServerStoppedError as ServerStoppedError
    from .errors import SkippedToolError as SkippedToolError
    from .errors import ToolError as ToolError
    from .errors import ToolImportError as ToolImportError
    from .errors import Unauthorized as Unauthorized
    from .errors import UnknownToolError as UnknownToolError
    from .functions.decorators import raw_tool as raw_tool
    from .functions.decorators import tool as tool
    from .functions.local_tool import LocalTool as LocalTool
    from .gateway import GatewayLimits as GatewayLimits
    from .gateway import open_gateway as open_gateway
    from .http.limits import PoolLimits as PoolLimits
    from .http.pool import Http1Transport as Http1Transport
    from .memory import open_memory_connection as open_memory_connection
    from .models.content import Audio as Audio
    from .models.content import EmbeddedResource as EmbeddedResource
    from .models.content import Image as Image
    from .models.content import ResourceLink as ResourceLink
    from .models.content import Text as Text
    from .models.content import UnknownBlock as UnknownBlock
    from .models.elicitation import ElicitRequest as ElicitRequest
    from .models.elicitation import ElicitResult as ElicitResult
    from .models.elicitation import OnElicit as OnElicit
    from .models.icon import Icon as Icon
    from .models.result import ToolResult as ToolResult
    from .models.server import Server as Server
    from .models.server import default_environment as default_environment
    from .models.tool import ToolAnnotations as ToolAnnotations
    from .models.tool import ToolSpec as ToolSpec
    from .models.typed_result import TypedToolResult as TypedToolResult
    from .protocol.revisions import ProtocolChoice as ProtocolChoice
    from .server.http.app import HttpApp as HttpApp
    from .server.http.serving import asgi_app as asgi_app
    from .server.http.serving import serve_http as serve_http
    from .server.limits import ServerLimits as ServerLimits
    from .server.registry import ToolServer as ToolServer
    from .server.stdio import serve_stdio as serve_stdio
    from .tools.context import Context as Context
    from .tools.context import LogLevel as LogLevel
    from .tools.context import OnProgress as OnProgress
    from .tools.importing import ImportedTools as ImportedTools
    from .tools.importing import import_tools as import_tools
    from .tools.naming import is_tool_name as is_tool_name
    from .tools.naming import tool_name as tool_name
    from .tools.policy import Policy as Policy
    from .tools.policy import Proceed as Proceed
    from .tools.policy import ToolCall as ToolCall
    from .tools.policy import Wrapper as Wrapper
    from .tools.rendering import Render as Render
    from .tools.tool import Tool as Tool
    from .transports.limits import LineLimits as LineLimits
    from .transports.limits import ProcessLimits as ProcessLimits
    from .transports.streamable.limits import StreamableLimits as StreamableLimits
else:  # hidden from type checkers, to which a misspelt name is an error
    from importlib import import_module

    #: The modules of the public names, below this package.
    _HOMES = {
        "agents.agent": (
            "Agent",
            "AgentLike",
            "add_agent",
        ),
        "agents.outcome": ("ToolOutcome",),
        "agents.providers.lookup": ("Provider",),
        "agents.toolbox": ("Toolbox",),
        "agents.turn": (
            "Approve",
            "OnOutcome",
        ),
        "agents.turn_context": ("OnCallProgress",),
        "client.connection": ("Connection",),
        "client.features.log_messages": ("OnLog",),
        "client.features.tool_watch": ("ToolWatch",),
        "client.limits": ("ClientLimits",),
        "client.opening": (
            "Connections",
            "connect",
            "open_connection",
            "open_connections",
        ),
        "client.outgoing.requests": ("Statistics",),
        "config": (
            "LoadedServers",
            "load_servers",
        ),
        "errors": (
            "ApprovalRequiredError",
            "AuthError",
            "ExchangeError",
            "InvalidArgumentsError",
            "InvalidServerError",
            "MCPError",
            "NotOfferedError",
            "ProtocolError",
            "RequestError",
            "ServerStartError",
            "ServerStoppedError",
            "SkippedToolError",
            "ToolError",
            "ToolImportError",
            "Unauthorized",
            "UnknownToolError",
        ),
        "functions.decorators": (
            "raw_tool",
            "tool",
        ),
        "functions.local_tool": ("LocalTool",),
        "gateway": (
            "GatewayLimits",
            "open_gateway",
        ),
        "http.limits": ("PoolLimits",),
        "http.pool": ("Http1Transport",),
        "memory": ("open_memory_connection",),
        "models.content": (
            "Audio",
            "EmbeddedResource",
            "Image",
            "ResourceLink",
            "Text",
            "UnknownBlock",
        ),
        "models.elicitation": (
            "ElicitRequest",
            "ElicitResult",
            "OnElicit",
        ),
        "models.icon": ("Icon",),
        "models.result": ("ToolResult",),
        "models.server": (
            "Server",
            "default_environment",
        ),
        "models.tool": (
            "ToolAnnotations",
            "ToolSpec",
        ),
        "models.typed_result": ("TypedToolResult",),
        "protocol.revisions": ("ProtocolChoice",),
        "server.http.app": ("HttpApp",),
        "server.http.serving": (
            "asgi_app",
            "serve_http",
        ),
        "server.limits": ("ServerLimits",),
        "server.registry": ("ToolServer",),
        "server.stdio": ("serve_stdio",),
        "tools.context": (
            "Context",
            "LogLevel",
            "OnProgress",
        ),
        "tools.importing": (
            "ImportedTools",
            "import_tools",
        ),
        "tools.naming": (
            "is_tool_name",
            "tool_name",
        ),
        "tools.policy": (
            "Policy",
            "Proceed",
            "ToolCall",
            "Wrapper",
        ),
        "tools.rendering": ("Render",),
        "tools.tool": ("Tool",),
        "transports.limits": (
            "LineLimits",
            "ProcessLimits",
        ),
        "transports.streamable.limits": ("StreamableLimits",),
    }
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

    def __getattr__(name):
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *_HOME_OF})
