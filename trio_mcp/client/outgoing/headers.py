"""Makes the headers of one connection's modern requests over HTTP, which repeat values of the params.

Knows of the listed tools which arguments their schemas want in headers (`x-mcp-header`), and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InvalidArgumentsError
from ...models.tool import ToolSpec
from ...protocol.headers import HeaderParameter, header_parameters, request_headers
from ...protocol.messages import decode_json


class RequestHeaders:
    """Makes headers for the requests of one connection, which speaks this revision.

    >>> dict(RequestHeaders("2026-07-28").of("resources/read", {"uri": "file:///a"}))["Mcp-Name"]
    'file:///a'
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._parameters: dict[str, tuple[HeaderParameter, ...]] = {}
        self._plain: dict[str, Mapping[str, str]] = {}  # of listed tools that want no argument in a header

    def check(self, spec: ToolSpec) -> None:
        """Check which arguments a listed tool wants to see in headers.

        Raises:
            ValueError: it asks for them wrongly (server/tools: "clients MUST reject" such a tool).
        """
        header_parameters(spec.input_schema)

    def learn(self, spec: ToolSpec) -> None:
        """Take note of which arguments a tool wants to see in headers. It has been checked."""
        self._plain.pop(spec.name, None)
        self._parameters[spec.name] = header_parameters(spec.input_schema)

    def of(self, method: str, params: Mapping[str, Any]) -> Mapping[str, str]:
        """The headers of a request with these params.

        Raises:
            InvalidArgumentsError: an argument cannot be a header.
        """
        if method == "tools/call" and isinstance(params.get("name"), str):
            return self.of_call(params["name"], params.get("arguments"))
        return request_headers(self._version, method, params)

    def of_call(self, name: str, arguments: Any) -> Mapping[str, str]:
        """The headers of a tools/call. `arguments` may be JSON as bytes: decoded only where a header repeats one.

        Raises:
            InvalidArgumentsError: an argument cannot be a header.
        """
        plain = self._plain.get(name)
        if plain is not None:
            return plain
        parameters = self._parameters.get(name, ())
        if parameters and isinstance(arguments, bytes):
            arguments = decode_json(arguments)
        params = {"name": name, "arguments": arguments}
        try:
            headers = request_headers(self._version, "tools/call", params, parameters)
        except ValueError as error:
            raise InvalidArgumentsError(name, str(error)) from None
        if not parameters and name in self._parameters:
            self._plain[name] = headers
        return headers
