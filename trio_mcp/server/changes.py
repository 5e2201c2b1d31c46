"""What can change on a server, and who is told of it. Knows no tool, no request and no transport."""

from __future__ import annotations

from collections.abc import Callable

import attrs


@attrs.frozen
class Topic:
    """Something that changes, of which clients can be told.

    Attributes:
        filter: the member of a subscription's filter that asks for it (basic/patterns/subscriptions).
        notification: the method of the notification, which legacy clients get without asking.
    """

    filter: str
    notification: str


class Changes:
    """The listeners of one server, by topic.

    >>> changes, told = Changes(), []
    >>> tools = Topic("toolsListChanged", "notifications/tools/list_changed")
    >>> changes.listen(tools, "me", lambda: told.append("changed"))
    >>> changes.announce(tools)
    >>> changes.unlisten("me")
    >>> changes.announce(tools)
    >>> told, len(changes)
    (['changed'], 0)
    """

    def __init__(self) -> None:
        self._listeners: dict[Topic, dict[object, Callable[[], None]]] = {}

    def __repr__(self) -> str:
        return f"<Changes, {len(self)} listeners>"

    def __len__(self) -> int:
        return sum(len(listeners) for listeners in self._listeners.values())

    def listen(self, topic: Topic, key: object, tell: Callable[[], None]) -> None:
        """Call `tell`, which must not block, after each change of the topic. `key` names the listener."""
        self._listeners.setdefault(topic, {})[key] = tell

    def unlisten(self, key: object) -> None:
        """Tell this listener nothing more, of any topic."""
        for listeners in self._listeners.values():
            listeners.pop(key, None)

    def announce(self, topic: Topic) -> None:
        """Tell every listener of the topic that it has changed."""
        for tell in list(self._listeners.get(topic, {}).values()):
            tell()
