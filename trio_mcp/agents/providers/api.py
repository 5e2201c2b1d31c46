"""What one provider's API is to this library: how tools, calls and outcomes look in its requests and answers.

Each provider has a module that fills in a `ProviderApi`; `lookup` finds it by name. No provider's package is
imported: an answer is read by its members, be it an object of such a package or decoded JSON, and a request is
plain dicts. This module knows neither how a call is run nor what its arguments say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from attrs import frozen

from ...models.content import Image
from ...tools.policy import ToolCall
from ...tools.tool import Tool
from .schemas import SchemaRules

#: A JSON object of a request.
Shape = dict[str, Any]


class Outcome(Protocol):
    """What a provider is told of a call; a `ToolOutcome` is one."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def content(self) -> str: ...
    @property
    def images(self) -> tuple[Image, ...]: ...
    @property
    def structured(self) -> Any: ...
    @property
    def is_error(self) -> bool: ...


@frozen(kw_only=True)
class ProviderApi:
    """One provider's API.

    Attributes:
        define: the definition of a tool, from the name that the provider knows it under, the tool, and the schema
            of its arguments as the provider takes it.
        read: the calls in an answer of the API; None where the value is no such answer.
        tell: the messages that tell the model of outcomes, at least one.
        rules: what the API takes as the schema of a tool's arguments.
    """

    define: Callable[[str, Tool, Shape], Shape]
    read: Callable[[Any], list[ToolCall] | None]
    tell: Callable[[Sequence[Outcome]], list[Shape]]
    rules: SchemaRules
