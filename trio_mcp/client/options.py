"""The options of one connection, besides its server: checked once, before anything is started."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import InvalidArgumentsError, InvalidServerError
from ..models.elicitation import OnElicit
from ..protocol.arguments import encode_arguments
from ..protocol.messages import decode_json
from ..protocol.negotiation import ERAS, EraMemory
from ..redaction import NOTHING_SECRET, Redactor, bounded_line
from ..version import __version__
from .feature import Feature
from .features.elicitation import elicitation
from .features.log_messages import OnLog
from .incoming.callbacks import Callback
from .limits import ClientLimits

#: How much of a server's log message a line of the log has.
LOGGED = 10_000

#: The levels of notifications/message as Python's.
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


class Options:
    """The options of one connection, and the callbacks to its plain functions.

    `features` are what servers may ask and tell besides what the functions stand for; `eras` remembers which era
    each server spoke last.
    """

    def __init__(
        self,
        name: str,
        redactor: Redactor = NOTHING_SECRET,
        *,
        client_info: Mapping[str, Any] | None = None,
        on_elicit: OnElicit | None = None,
        on_log: OnLog | None = None,
        on_stderr: Callable[[str], object] | None = None,
        limits: ClientLimits | None = None,
        features: Iterable[Feature] = (),
        eras: EraMemory = ERAS,
    ) -> None:
        for field, function in (("on_elicit", on_elicit), ("on_log", on_log), ("on_stderr", on_stderr)):
            if function is not None and not callable(function):
                raise InvalidServerError(field, f"expected a function, got {type(function).__name__}")
            if field != "on_elicit" and inspect.iscoroutinefunction(function):
                raise InvalidServerError(field, "expected a plain function, got an async one")
        if limits is not None and not isinstance(limits, ClientLimits):
            raise InvalidServerError("limits", f"expected ClientLimits, got {type(limits).__name__}")
        #: What this client says it is, in every request or in the handshake.
        self.client_info: dict[str, Any] = _checked_info(client_info)
        self.limits: ClientLimits = ClientLimits() if limits is None else limits
        self.eras = eras
        own = () if on_elicit is None else (elicitation(on_elicit, redactor),)
        self.features: tuple[Feature, ...] = (*own, *features)
        #: Whether the server is asked to send its log messages, all of them.
        self.wants_log: bool = on_log is not None
        self.log: Callback[str, str | None, Any] = (
            Callback(_to_logger(name, redactor), "a log handler") if on_log is None else Callback(on_log, "on_log")
        )
        self.stderr: Callback[str] | None = None if on_stderr is None else Callback(on_stderr, "on_stderr")

    @property
    def callbacks(self) -> tuple[Callback[Any], ...]:
        """Everything that needs a task of the connection."""
        return (self.log,) if self.stderr is None else (self.log, self.stderr)  # type: ignore[return-value] # any item


def _checked_info(info: Mapping[str, Any] | None) -> dict[str, Any]:
    if info is None:
        return {"name": "trio_mcp", "version": __version__}
    if not isinstance(info, Mapping):
        raise InvalidServerError("client_info", f"expected a mapping, got {type(info).__name__}")
    for key in ("name", "version"):
        if not isinstance(info.get(key), str):
            raise InvalidServerError("client_info", f"{key}: expected a str, got {type(info.get(key)).__name__}")
    try:
        checked: dict[str, Any] = decode_json(encode_arguments("client_info", info))
    except InvalidArgumentsError as error:
        raise InvalidServerError("client_info", error.reason) from error
    return checked


def _to_logger(name: str, redactor: Redactor) -> Callable[[str, str | None, Any], None]:
    logger = logging.getLogger(f"trio_mcp.server.{name}")

    def log(level: str, source: str | None, data: Any) -> None:
        text = data if isinstance(data, str) else repr(data)
        shown = bounded_line(redactor(f"{source}: {text}" if source else text), LOGGED)
        logger.log(_LEVELS.get(level, logging.INFO), "%s", shown)

    return log
