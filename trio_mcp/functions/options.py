"""The options of a tool that is made here: each checked, and as the members of a listed entry.

This knows what is said about a tool, and nothing of the function that it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import Attribute, field, frozen

from ..models.icon import Icon, icon_to_wire
from ..protocol.messages import encode_json
from ..tools.policy import NO_POLICY, Policy

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def check_name(name: Any) -> str:
    """The name of a tool, checked.

    Raises:
        ValueError: it is not legal.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"name: expected 1 to 64 of A-Z a-z 0-9 _ . -, got {name!r}")
    return name


def _is(kind: type) -> Any:
    def check(_: Any, attribute: Attribute[Any], value: Any) -> None:
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{attribute.name}: expected {kind.__name__}, got {type(value).__name__}")

    return check


def _as_meta(meta: Any) -> dict[str, Any] | None:
    if meta is None:
        return None
    if not isinstance(meta, Mapping) or not all(isinstance(key, str) for key in meta):
        raise TypeError(f"meta: expected a mapping with names that are str, got {type(meta).__name__}")
    try:
        encode_json(dict(meta))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"meta: cannot be written as JSON: {error}") from error
    return dict(meta)


def _as_icons(icons: Any) -> tuple[Icon, ...]:
    if isinstance(icons, str | bytes | Mapping) or not isinstance(icons, Iterable):
        raise TypeError(f"icons: expected a sequence of Icon, got {type(icons).__name__}")
    found = tuple(icons)
    for icon in found:
        if not isinstance(icon, Icon):
            raise TypeError(f'icons: expected Icon, got {type(icon).__name__}: write Icon("https://...")')
    return found


@frozen(kw_only=True)
class ToolOptions:
    """The options that the maker of a tool gave. None stands for an option that was not given.

    Raises:
        TypeError: an option is of the wrong type; the message begins with its name.
        ValueError: the name is not legal.

    >>> ToolOptions(read_only=True).annotations
    {'readOnlyHint': True}
    """

    name: str | None = field(default=None)
    title: str | None = field(default=None, validator=_is(str))
    description: str | None = field(default=None, validator=_is(str))
    read_only: bool | None = field(default=None, validator=_is(bool))
    destructive: bool | None = field(default=None, validator=_is(bool))
    idempotent: bool | None = field(default=None, validator=_is(bool))
    open_world: bool | None = field(default=None, validator=_is(bool))
    meta: dict[str, Any] | None = field(default=None, converter=_as_meta)
    icons: tuple[Icon, ...] = field(default=(), converter=_as_icons)
    policy: Policy | None = field(default=None, validator=_is(Policy))

    @property
    def annotations(self) -> dict[str, bool]:
        """The hints that were given, as they are listed."""
        hints = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {wire: hint for wire, hint in hints.items() if hint is not None}

    @property
    def members(self) -> dict[str, Any]:
        """The members of a listed entry that these options make, beside name, description and schemas."""
        members: dict[str, Any] = {} if self.title is None else {"title": self.title}
        if self.annotations:
            members["annotations"] = self.annotations
        if self.icons:
            members["icons"] = [icon_to_wire(icon) for icon in self.icons]
        if self.meta is not None:
            members["_meta"] = self.meta
        return members

    @property
    def given_policy(self) -> Policy:
        """The policy, which is one that decides nothing where none was given."""
        return NO_POLICY if self.policy is None else self.policy
