"""What the picture of the architecture says: a line about each room, and the stations of one call each way.

A station is a function that every such call enters, in this order. The call enters others between them; these are
the ones that decide something.
"""

from __future__ import annotations

from attrs import frozen

#: What each room is for, in a few words: as many as there is place for in its box.
ROOMS = {
    "cli": "the command line: list, call, serve, gateway, demo",
    "demo": "a server to try",
    "testing": "for users' tests",
    "gateway": "many servers as one",
    "config": "the mcpServers JSON of hosts",
    "memory": "client and server in one process",
    "agents": "Toolbox: a model's turn of calls; agents as tools; what providers take",
    "client": "Connection: opening, negotiation, requests, features",
    "server": "ToolServer: dispatch, features, stdio, HTTP",
    "functions": "Python functions as tools: signature, schema, result",
    "tools": "what a tool is: name, policy, context, texts",
    "transports": "move requests and answers: lines, processes, HTTP",
    "http": "HTTP/1.1 by itself; knows no MCP",
    "models": "what crosses the wire, as values; the codec",
    "protocol": "sans-I/O: messages, framing, revisions, negotiation",
    "errors": "every exception, and who is at fault",
    "error_base": "what every exception has",
    "redaction": "what is never shown",
    "version": "the version",
    "nursery": "a nursery whose errors leave bare",
    "bounds": "fields of limits",
}


@frozen
class Station:
    """One function on the way: its file below trio_mcp/, its name, and what it does."""

    file: str
    function: str
    does: str


@frozen
class Way:
    """The stations of one kind of call."""

    title: str
    stations: tuple[Station, ...]


WAYS = (
    Way(
        "A call to a server on stdio",
        (
            Station("client/connection.py", "Connection.call_tool", "checks the name, encodes the arguments"),
            Station("client/outgoing/requests.py", "Requests.call", "counts; answers questions, round by round"),
            Station(
                "transports/lines/transport.py", "StreamTransport.request", "takes an id, waits for the answer"
            ),
            Station("transports/lines/outbox.py", "Outbox.put", "writes the line to the process, or queues it"),
            Station("protocol/framing.py", "LineBuffer.feed", "cuts what the process wrote into lines"),
            Station("protocol/messages.py", "read_line", "makes a line a message"),
            Station("protocol/pending.py", "PendingTable.resolve", "finds the request, wakes its task"),
            Station("models/result.py", "read_call_result", "makes the bytes a ToolResult"),
        ),
    ),
    Way(
        "A call to a server over HTTP",
        (
            Station("client/connection.py", "Connection.call_tool", "checks the name, encodes the arguments"),
            Station("client/outgoing/requests.py", "Requests.call", "counts; answers questions, round by round"),
            Station("transports/streamable/transport.py", "HttpTransport.request", "one exchange a request"),
            Station("transports/streamable/endpoint.py", "Endpoint.send", "adds credentials, follows redirects"),
            Station("http/pool.py", "Http1Transport.handle_async_request", "takes a connection, or opens one"),
            Station("transports/streamable/exchange.py", "Exchange.read", "reads JSON or events until the answer"),
            Station("protocol/messages.py", "read_line", "makes the body or event a message"),
            Station("models/result.py", "read_call_result", "makes the bytes a ToolResult"),
        ),
    ),
    Way(
        "A call that comes in over HTTP",
        (
            Station("server/http/app.py", "HttpApp._serve", "routes; asks who may come in"),
            Station("server/http/asgi.py", "HttpRequest.read_body", "reads the body, up to max_body"),
            Station("server/http/body.py", "read_post", "makes the body messages"),
            Station("server/http/modern.py", "Modern.post", "compares headers and body, counts the load"),
            Station("server/dispatch.py", "Dispatcher.begin_checked", "looks the method up in the table"),
            Station("tools/tool.py", "Tool.run", "runs the tool, wherever it is"),
            Station("functions/local_tool.py", "FunctionRun.__call__", "decodes arguments, calls the function"),
            Station("server/features/tool_results.py", "encode_result", "encodes the ToolResult for the era"),
        ),
    ),
)
