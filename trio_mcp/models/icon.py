"""Icons of what a server offers: data for whoever shows them. Nothing is fetched here."""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen

_SIZE = re.compile(r"[1-9][0-9]*x[1-9][0-9]*|any")
_MIME_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+")
_DATA = re.compile(r"data:[\w!#$&^.+-]+/[\w!#$&^.+-]+;base64,(?P<data>.+)", re.DOTALL)
_THEMES = (None, "light", "dark")

#: The background that an icon is made for.
Theme = Literal["light", "dark"]


def _check_src(_: Any, __: Attribute[str], value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"src: expected str, got {type(value).__name__}")
    if value.startswith("data:"):
        found = _DATA.fullmatch(value)
        try:
            binascii.a2b_base64(found["data"] if found else "?", strict_mode=True)
        except ValueError:
            raise ValueError('src: a data URI needs a type and base64: "data:image/png;base64,..."') from None
        return
    try:
        parts = urlsplit(value)
        usable = parts.scheme == "https" and bool(parts.hostname) and value.isprintable() and " " not in value
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"src: expected an https URL or a data URI, got {value!r}")


def _check_mime_type(_: Any, __: Attribute[str | None], value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"mime_type: expected str or None, got {type(value).__name__}")
    if value is not None and not _MIME_TYPE.fullmatch(value):
        raise ValueError(f'mime_type: expected a type such as "image/png", got {value!r}')


def _as_sizes(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"sizes: expected a sequence of str, got {type(value).__name__}")
    for size in value:
        if not isinstance(size, str):
            raise TypeError(f"sizes: expected a sequence of str, got {type(size).__name__} in it")
        if not _SIZE.fullmatch(size):
            raise ValueError(f'sizes: expected sizes such as "48x48", or "any", got {size!r}')
    return tuple(value)


def _check_theme(_: Any, __: Attribute[Theme | None], value: Any) -> None:
    if value not in _THEMES:
        raise ValueError(f'theme: expected "light", "dark" or None, got {value!r}')


@frozen
class Icon:
    """An icon of a tool (schema, "Icon").

    Args:
        src: an https URL, or a data URI with base64.
        mime_type: its media type, where the source does not say it.
        sizes: what it is good for: "48x48" and the like, or "any"; empty: every size.
        theme: the background that it is made for.

    Raises:
        TypeError: a field has the wrong type; the message begins with its name.
        ValueError: a field is not what the specification says; likewise.

    >>> icon_to_wire(Icon("https://example.org/clock.svg", mime_type="image/svg+xml", sizes=["any"]))
    {'src': 'https://example.org/clock.svg', 'mimeType': 'image/svg+xml', 'sizes': ['any']}
    """

    src: str = field(validator=_check_src)
    mime_type: str | None = field(default=None, kw_only=True, validator=_check_mime_type)
    sizes: tuple[str, ...] = field(default=(), kw_only=True, converter=_as_sizes)
    theme: Theme | None = field(default=None, kw_only=True, validator=_check_theme)


def icon_to_wire(icon: Icon) -> dict[str, Any]:
    """An icon as the JSON object that goes over the wire."""
    wire: dict[str, Any] = {"src": icon.src}
    if icon.mime_type is not None:
        wire["mimeType"] = icon.mime_type
    if icon.sizes:
        wire["sizes"] = list(icon.sizes)
    if icon.theme is not None:
        wire["theme"] = icon.theme
    return wire
