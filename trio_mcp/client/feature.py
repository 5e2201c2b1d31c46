"""The contract of a client's features: what servers may ask, what they may tell, what the client declares for it.

A feature is a value of type `Feature`, made by a file in features/. `FeatureTable` joins the features of one
connection, and everything that comes in is looked up there by its method. Which features a connection has is
decided in options.py (what the program handles) and client.py (what every client has). This file knows no feature,
no transport and no era.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import attrs

Question = TypeVar("Question")

#: Takes the undecoded params of a notification. The task that reads the stream calls it: it never blocks and runs
#: no function of the program. A ProtocolError of it drops the notification, with one warning.
OnNotification = Callable[[bytes], None]


@attrs.frozen(kw_only=True)
class ServerRequest(Generic[Question]):
    """One method that servers may ask, and how a request of it is answered.

    Attributes:
        read: turns the decoded params (None where there are none) into what `answer` takes. Raises RequestError
            for params that cannot be served.
        answer: gives the members of the result. For a legacy server it runs in a task of the connection; for a
            modern one in the task whose call the server cannot finish without the answer, and what it raises ends
            that call.
        fallback: the result that a legacy server gets when `answer` raised; None stands for an internal error.
        failure: what is logged then.
    """

    read: Callable[[Any], Question]
    answer: Callable[[Question], Awaitable[Mapping[str, Any]]]
    fallback: Mapping[str, Any] | None = None
    failure: str = "a question was not answered: its handler failed"


@attrs.frozen(kw_only=True)
class Feature:
    """One feature of a client.

    Attributes:
        capabilities: what the client declares to servers because of it.
        requests: the methods that servers may ask.
        notifications: the methods that servers may tell.

    >>> def read(params):
    ...     return params["zone"]
    >>> async def tell_time(zone):
    ...     return {"time": "12:00", "zone": zone}
    >>> clock = Feature(
    ...     capabilities={"clock": {}}, requests={"clock/read": ServerRequest(read=read, answer=tell_time)}
    ... )
    >>> FeatureTable([clock]).capabilities
    {'clock': {}}
    """

    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    requests: Mapping[str, ServerRequest[Any]] = attrs.field(factory=dict)
    notifications: Mapping[str, OnNotification] = attrs.field(factory=dict)


class FeatureTable:
    """The features of one connection, joined: capabilities, and handlers by method."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self.capabilities: dict[str, Any] = {}
        self.requests: dict[str, ServerRequest[Any]] = {}
        self.notifications: dict[str, OnNotification] = {}
        for feature in features:
            _add(self.capabilities, feature.capabilities)
            _add(self.requests, feature.requests)
            _add(self.notifications, feature.notifications)


def _add(table: dict[str, Any], entries: Mapping[str, Any]) -> None:
    for name, entry in entries.items():
        if name in table:
            raise ValueError(f"two features of the client claim {name!r}")
        table[name] = entry
