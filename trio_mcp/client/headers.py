"""The headers of one connection's requests over HTTP in the modern era, which repeat what the bodies say.

Knows the listed tools by what their schemas ask for (`x-mcp-header`), and nothing else of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import InvalidArgumentsError
from ..models.tool import ToolSpec
from ..protocol.headers import HeaderParameter, header_parameters, request_headers
from ..protocol.messages import Encoded, decode_json, joined


class _Params(msgspec.Struct):
    """What headers may repeat, and no more: the rest is skipped undecoded."""

    name: Any = None
    uri: Any = None
    taskId: Any = None  # noqa: N815 - as on the wire
    arguments: Raw = Raw()


_decode_params = msgspec.json.Decoder(_Params).decode


class RequestHeaders:
    """Makes headers for the requests of one connection, which speaks this revision."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._parameters: dict[str, tuple[HeaderParameter, ...]] = {}
        self._plain: dict[str, Mapping[str, str]] = {}  # of listed tools that want nothing in headers

    def check(self, spec: ToolSpec) -> None:
        """Whether what a listed tool wants to see in headers is legal.

        Raises:
            ValueError: it is not (server/tools: "clients MUST reject" such a tool).
        """
        header_parameters(spec.input_schema)

    def learn(self, spec: ToolSpec) -> None:
        """Take note of what a tool wants to see in headers, which has been checked."""
        self._plain.pop(spec.name, None)
        self._parameters[spec.name] = header_parameters(spec.input_schema)

    def of(self, method: str, members: Encoded, name: str) -> Mapping[str, str]:
        """The headers of a request whose params have these encoded members (without braces).

        Raises:
            InvalidArgumentsError: an argument cannot be a header; it names `name`.
        """
        plain = self._plain.get(name) if method == "tools/call" else None
        if plain is not None:
            return plain
        params = _named(b"{%b}" % joined(members))
        parameters = self._parameters.get(name, ()) if method == "tools/call" else ()
        if parameters and isinstance(params["arguments"], Raw):
            params["arguments"] = decode_json(bytes(params["arguments"]))
        try:
            headers = request_headers(self._version, method, params, parameters)
        except ValueError as error:
            raise InvalidArgumentsError(name, str(error)) from None
        if method == "tools/call" and params["name"] == name and name in self._parameters and not parameters:
            self._plain[name] = headers
        return headers


def _named(params: bytes) -> dict[str, Any]:
    try:
        found = _decode_params(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = decode_json(params)
        assert isinstance(decoded, dict)
        return decoded
    return {"name": found.name, "uri": found.uri, "taskId": found.taskId, "arguments": found.arguments}
