"""`Context`: how a running tool reports progress, logs, and asks the user or the client's model.

A tool knows only `Context`, which speaks to the client through a `CallContext`. server/ implements that once for
each era; a call within this process has a `LocalCall`. This module knows no transport.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar, get_args

import trio

from ..errors import NotOfferedError, ProtocolError
from ..models.elicitation import ElicitResult
from .forms import form_schema, read_answer

#: An async function `(progress, total, message)`.
OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]

#: The levels of log messages, the least important first (server/utilities/logging).
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)

#: What a client can be asked, and the capability that it must have declared for it (client/elicitation,
#: client/sampling, client/roots).
CAPABILITY_OF: Mapping[str, str] = MappingProxyType(
    {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
)
ASKABLE = tuple(CAPABILITY_OF)

Schema = TypeVar("Schema")

logger: logging.Logger = logging.getLogger("trio_mcp.tools")


class CallContext(Protocol):
    """The client's side of one call: what a `Context` sends through it, and knows of it."""

    client_info: Mapping[str, Any] | None
    meta: Mapping[str, Any]
    principal: Any

    @property
    def on_progress(self) -> OnProgress | None:
        """Where progress goes; None where nobody wants any."""

    async def log(self, level: str, data: Any) -> None:
        """Send a log message, if the client wants that level."""

    async def ask(self, method: str, params: Mapping[str, Any], key: str | None = None) -> Any:
        """Ask the client something and wait for its result. `key` names the question (modern)."""


class LocalCall:
    """A call within this process: progress goes to whoever called, log messages to the logger `trio_mcp.tools`."""

    client_info: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] = MappingProxyType({})
    principal: Any = None

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        self.on_progress = on_progress

    async def log(self, level: str, data: Any) -> None:
        await trio.lowlevel.checkpoint()
        logger.log(logging.INFO, "%s: %s", level, data)

    async def ask(self, method: str, params: Mapping[str, Any], key: str | None = None) -> Any:
        await trio.lowlevel.checkpoint()
        raise NotOfferedError({"elicitation/create": "elicitation", "roots/list": "roots"}.get(method, "sampling"))


class Context:
    """Injected into a tool's function where a parameter is annotated with it; it is not in the tool's schema.

    Attributes:
        client_info: what the client says it is, a mapping with name and version; None when it does not say.
        meta: the `_meta` of the call.
        principal: what the server's `authorize` returned (HTTP); else None.

    Example:
        >>> from trio_mcp import Context, tool
        >>> @tool
        ... async def count(to: int, context: Context) -> int:
        ...     for step in range(to):
        ...         await context.progress(step + 1, total=to)
        ...     return to
    """

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._last: float | None = None

    def __repr__(self) -> str:
        return f"<Context of {type(self._call).__name__}>"

    @property
    def client_info(self) -> Mapping[str, Any] | None:
        """What the client says it is."""
        return self._call.client_info

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the call."""
        return self._call.meta

    @property
    def principal(self) -> Any:
        """Who is calling, as the server's `authorize` found."""
        return self._call.principal

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the call is. Does nothing when the client did not ask for progress.

        Args:
            progress: must grow from one to the next; one that does not is dropped.
            total: what it grows to, when that is known.
            message: what is being done, for people.

        Raises:
            ValueError: a number is NaN or infinite, which JSON does not have.
        """
        # Here, and not where it is sent: a loop over this can be cancelled, whoever listens, or nobody.
        await trio.lowlevel.checkpoint()
        if not (math.isfinite(progress) and (total is None or math.isfinite(total))):
            raise ValueError(f"progress: expected finite numbers, got {progress} of {total}")
        # basic/utilities/progress: "The progress value MUST increase with each notification"
        if self._call.on_progress is None or (self._last is not None and progress <= self._last):
            return
        self._last = progress
        await self._call.on_progress(progress, total, message)

    async def log(self, level: LogLevel, data: Any) -> None:
        """Send a log message (server/utilities/logging), if the client wants that level.

        Args:
            level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
            data: any JSON value; most often a str.
        """
        if level not in LEVELS:
            await trio.lowlevel.checkpoint()
            raise ValueError(f"level: expected one of {', '.join(LEVELS)}, got {level!r}")
        await self._call.log(level, data)

    async def elicit(self, message: str, schema: type[Schema]) -> ElicitResult:
        """Ask the user (client/elicitation): blocks until there is an answer.

        To modern clients the question is the call's answer, and **the function runs again from the top** once
        the user has answered: everything before this call happens again. Earlier answers are remembered.

        Args:
            message: what is asked.
            schema: an attrs class, dataclass or msgspec.Struct with flat fields: str, int, float, bool, enums,
                lists of enums, each of them perhaps `| None`.

        Returns:
            The answer; when it was accepted, `content` is an instance of `schema`.

        Raises:
            TypeError: `schema` is no class that a form can be made of.
            NotOfferedError: the client cannot ask its user.
            ProtocolError: the client's answer does not fit the schema.
        """
        try:
            params = {"message": message, "requestedSchema": form_schema(schema)}
        except Exception:
            await trio.lowlevel.checkpoint()
            raise
        answer = await self._call.ask("elicitation/create", params)
        return read_answer(answer, schema)

    async def sample(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client's model (client/sampling): blocks until it has answered; runs again as `elicit` tells.

        Args:
            params: those of sampling/createMessage: `messages`, `maxTokens` and more.

        Returns:
            The result: `role`, `content`, `model` and more.

        Raises:
            NotOfferedError: the client has no model to offer.
        """
        answer = await self._call.ask("sampling/createMessage", params)
        if not isinstance(answer, dict):
            raise ProtocolError("sampling/createMessage was answered with something that is no object")
        return answer

    async def ask(self, method: str, params: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Ask the client by the letter of the protocol, where `elicit` and `sample` are too narrow.

        Blocks until it has answered; runs again as `elicit` tells.

        Args:
            method: "elicitation/create", "sampling/createMessage" or "roots/list".
            params: the request's params, such as a form's schema of your own.
            key: what the question is called towards modern clients, which otherwise get a name made from what is
                asked. A client that knows the name may answer before it is asked.

        Returns:
            The result as it came, unchecked.

        Raises:
            ValueError: a client cannot be asked that.
            NotOfferedError: the client does not offer it.
        """
        if method not in ASKABLE:
            await trio.lowlevel.checkpoint()
            raise ValueError(f"method: expected one of {', '.join(ASKABLE)}, got {method!r}")
        answer = await self._call.ask(method, params, key)
        if not isinstance(answer, dict):
            raise ProtocolError(f"{method} was answered with something that is no object")
        return answer
