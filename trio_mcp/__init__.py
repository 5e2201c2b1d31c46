"""trio_mcp: a trio-native library for the Model Context Protocol.

Start MCP servers, hand their tools to a model, call many at once; leaving a scope ends everything in it.

>>> import trio_mcp
>>> server = trio_mcp.Server("time", command="mcp-server-time", env=trio_mcp.default_environment())

Every public name is loaded when it is first used, so that `import trio_mcp` stays light.
"""

# The map of this tree. Imports go one way, from the end of this list to its start.
#
#   version, redaction   the version; what is never shown
#   nursery              a nursery whose errors leave bare
#   errors               every exception, and who is at fault
#   protocol/            sans-I/O: the envelope, lines, pending ids, revisions, raw arguments
#   models/              what crosses the wire: servers, content blocks, tools as listed, results
#   tools/               from "a tool on a server" to "a tool my agent can use"
#   transports/          move requests and answers: processes, streams, HTTP
#   client/              Connection, the Client behind it, and the scopes that open one
#   server/              ToolServer, and what serves it
#     registry, agent    what is published
#     dispatch           one request in, one answer out, in both eras; with calls, params, results and rounds
#     stdio, streams     over stdin and stdout, or any pair of streams
#     http, listening    over HTTP: hypercorn, and its sockets
#     app                which request goes where, start and stop
#     asgi, guard        one HTTP request; who may come in
#     envelope, refusals what a body says; what it is refused with
#     modern             requests of the modern era, each by itself
#     sessions, legacy   the sessions of the legacy era; one of them
#     load, queue      of both: how much runs at once; what waits to be sent as events
#   memory               both ends in one process
#   config               the mcpServers JSON that every MCP host reads
#   gateway              many servers behind one ToolServer
#   demo, testing        a server to try; helpers for users' tests
#   cli/, __main__       the command line

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

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
    from .client.features.elicitation import OnElicit as OnElicit
    from .client.features.log_messages import OnLog as OnLog
    from .client.features.tool_watch import ToolWatch as ToolWatch
    from .client.limits import ClientLimits as ClientLimits
    from .client.opening import Connections as Connections
    from .client.opening import connect as connect
    from .client.opening import open_connection as open_connection
    from .client.opening import open_connections as open_connections
    from .client.requests import Statistics as Statistics
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
    from .memory import open_memory_connection as open_memory_connection
    from .models.content import Audio as Audio
    from .models.content import EmbeddedResource as EmbeddedResource
    from .models.content import Image as Image
    from .models.content import ResourceLink as ResourceLink
    from .models.content import Text as Text
    from .models.content import UnknownBlock as UnknownBlock
    from .models.elicitation import ElicitRequest as ElicitRequest
    from .models.elicitation import ElicitResult as ElicitResult
    from .models.icon import Icon as Icon
    from .models.result import ToolResult as ToolResult
    from .models.server import Server as Server
    from .models.server import default_environment as default_environment
    from .models.tool import ToolAnnotations as ToolAnnotations
    from .models.tool import ToolSpec as ToolSpec
    from .models.typed_result import TypedToolResult as TypedToolResult
    from .server.http.app import HttpApp as HttpApp
    from .server.http.serving import asgi_app as asgi_app
    from .server.http.serving import serve_http as serve_http
    from .server.limits import ServerLimits as ServerLimits
    from .server.registry import ToolServer as ToolServer
    from .server.stdio import serve_stdio as serve_stdio
    from .tools.context import Context as Context
    from .tools.context import OnProgress as OnProgress
    from .tools.importing import ImportedTools as ImportedTools
    from .tools.importing import import_tools as import_tools
    from .tools.naming import is_tool_name as is_tool_name
    from .tools.naming import tool_name as tool_name
    from .tools.policy import Policy as Policy
    from .tools.policy import ToolCall as ToolCall
    from .tools.policy import Wrapper as Wrapper
    from .tools.rendering import Render as Render
    from .tools.tool import Tool as Tool
    from .transports.streamable.limits import StreamableLimits as StreamableLimits

_HOMES = {
    "client.connection": ("Connection",),
    "client.features.elicitation": ("OnElicit",),
    "client.features.log_messages": ("OnLog",),
    "client.features.tool_watch": ("ToolWatch",),
    "client.limits": ("ClientLimits",),
    "client.requests": ("Statistics",),
    "client.opening": ("Connections", "connect", "open_connection", "open_connections"),
    "config": ("LoadedServers", "load_servers"),
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
    "models.content": ("Audio", "EmbeddedResource", "Image", "ResourceLink", "Text", "UnknownBlock"),
    "models.icon": ("Icon",),
    "models.result": ("ToolResult",),
    "models.server": ("Server", "default_environment"),
    "models.tool": ("ToolAnnotations", "ToolSpec"),
    "models.typed_result": ("TypedToolResult",),
    "tools.naming": ("is_tool_name", "tool_name"),
    "tools.policy": ("Policy", "ToolCall", "Wrapper"),
    "tools.rendering": ("Render",),
    "tools.tool": ("Tool",),
    "agents.outcome": ("ToolOutcome",),
    "agents.providers.lookup": ("Provider",),
    "agents.toolbox": ("Toolbox",),
    "agents.turn": ("Approve", "OnOutcome"),
    "agents.turn_context": ("OnCallProgress",),
    "tools.importing": ("ImportedTools", "import_tools"),
    "functions.decorators": ("raw_tool", "tool"),
    "tools.context": ("Context", "OnProgress"),
    "functions.local_tool": ("LocalTool",),
    "models.elicitation": ("ElicitRequest", "ElicitResult"),
    "agents.agent": ("Agent", "AgentLike", "add_agent"),
    "server.http.app": ("HttpApp",),
    "server.http.serving": ("asgi_app", "serve_http"),
    "server.limits": ("ServerLimits",),
    "server.registry": ("ToolServer",),
    "server.stdio": ("serve_stdio",),
    "gateway": ("GatewayLimits", "open_gateway"),
    "memory": ("open_memory_connection",),
    "transports.streamable.limits": ("StreamableLimits",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
