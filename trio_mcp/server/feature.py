"""What a feature tells the server: its methods, notifications, capabilities and topics. Types only, no feature.

A feature is one value in one file of `features/`, and one entry in `features/table.py`. `dispatch` finds a
request's method here and calls its handler; what HTTP has to know about a method stands beside it. A handler never
blocks: it gives the encoded result, or the work that will give it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Literal, Protocol, TypeVar

import attrs
import msgspec

from ..protocol.messages import Id
from ..protocol.revisions import Era
from .changes import Topic
from .client_state import ClientState
from .params import AnyParams, Params, ParamsReader
from .registry import ToolServer

ParamsOfRequest = TypeVar("ParamsOfRequest", bound=Params, covariant=True)

#: What a handler leaves to be awaited: gives the encoded result, or raises RequestError.
Work = Callable[[], Awaitable[bytes]]


class Peer(Protocol):
    """The way back to the client that a request came from. `principal` is what `authorize` returned for it."""

    principal: Any

    def notify(self, method: str, params: bytes, *, once: bool = False) -> None:
        """Send a notification that belongs to the request. `once`: it may be skipped if an equal one is queued."""

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client (legacy); its result, undecoded."""
        raise NotImplementedError


class Request(msgspec.Struct, Generic[ParamsOfRequest], frozen=True):
    """One request, as a handler gets it. `meta` is the `_meta` of its params.

    A msgspec struct, like the params: one is made for every request, and msgspec does that in C.
    """

    id: Id
    method: str
    era: Era
    params: ParamsOfRequest
    meta: Mapping[str, Any]
    peer: Peer
    client: ClientState
    server: ToolServer
    features: FeatureTable


def _no_headers(server: ToolServer, params: Any) -> Iterable[tuple[str, Any]]:
    return ()


@attrs.frozen(kw_only=True)
class Method(Generic[AnyParams]):
    """One request method: its params, and its handler in each era. A handler may raise RequestError.

    Attributes:
        name: as it stands in the request.
        params: the struct that its params are decoded into.
        legacy, modern: the handlers; None where the era does not have the method.
        needs_initialize: whether a legacy client must have sent `initialize` before.
        opens_session: whether it begins a legacy session; over HTTP such a request comes alone, without a session.
        counts_as: what a running request is over HTTP: a "call", bounded by `max_running`, or a "stream", bounded
            by `max_sessions`. None: it is answered at once, and never refused for being too much.
        mcp_name: the param that the Mcp-Name header of a modern request repeats; None: it has no such header.
        header_params: what further headers of a modern request repeat: their names, and the values of the params,
            None where a value is absent and the header must be absent too.
    """

    name: str
    params: type[AnyParams]
    legacy: Callable[[Request[AnyParams]], bytes | Work] | None = None
    modern: Callable[[Request[AnyParams]], bytes | Work] | None = None
    needs_initialize: bool = True
    opens_session: bool = False
    counts_as: Literal["call", "stream"] | None = None
    mcp_name: Callable[[AnyParams], Any] | None = None
    header_params: Callable[[ToolServer, AnyParams], Iterable[tuple[str, Any]]] = _no_headers
    read: ParamsReader[AnyParams] = attrs.field(
        init=False, default=attrs.Factory(lambda self: ParamsReader(self.params), takes_self=True)
    )


#: `(client, features, params)`
OnNotification = Callable[[ClientState, "FeatureTable", bytes], None]


def _no_capabilities(server: ToolServer, era: Era) -> Mapping[str, Any]:
    return {}


@attrs.frozen(kw_only=True)
class Feature:
    """One part of MCP that a server offers.

    Attributes:
        methods: the requests that it answers.
        notifications: what it does about a client's notifications, by method. Given the client, the table and the
            undecoded params; must not block.
        capabilities: what a server declares for it in an era: members of the specification's ServerCapabilities.
        topics: what changes in it.
    """

    methods: tuple[Method[Any], ...] = ()
    notifications: Mapping[str, OnNotification] = MappingProxyType({})
    capabilities: Callable[[ToolServer, Era], Mapping[str, Any]] = _no_capabilities
    topics: tuple[Topic, ...] = ()


class FeatureTable:
    """Every feature of a server, with all methods by name.

    Raises:
        ValueError: two features have one method, notification or topic.

    >>> echo = Method(name="example/echo", params=Params, modern=lambda request: b"{}")
    >>> table = FeatureTable([Feature(methods=(echo,))])
    >>> table.methods["example/echo"] is echo
    True
    """

    def __init__(self, features: Iterable[Feature]) -> None:
        self.features: tuple[Feature, ...] = tuple(features)
        self.topics: tuple[Topic, ...] = tuple(topic for feature in self.features for topic in feature.topics)
        #: Every method, by name.
        self.methods: dict[str, Method[Any]] = {}
        self._notifications: dict[str, OnNotification] = {}
        names = [topic.filter for topic in self.topics]
        for feature in self.features:
            names += [method.name for method in feature.methods] + list(feature.notifications)
            self.methods |= {method.name: method for method in feature.methods}
            self._notifications |= feature.notifications
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"features: two have {name!r}")

    def __repr__(self) -> str:
        return f"<FeatureTable of {len(self.features)} features, {len(self.methods)} methods>"

    def notified(self, client: ClientState, method: str, params: bytes) -> None:
        """Do what a notification of the client asks for. An unknown one is ignored."""
        act = self._notifications.get(method)
        if act is not None:
            act(client, self, params)

    def capabilities(self, server: ToolServer, era: Era) -> dict[str, Any]:
        """What the server declares in that era."""
        return {name: value for one in self.features for name, value in one.capabilities(server, era).items()}
