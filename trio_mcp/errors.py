"""Every exception of trio_mcp. Each docstring says who is at fault.

Constructors take facts, and each class makes its sentence of them. `str(error)` is one line that may be shown to
a model, whatever a server wrote into it: control characters and line ends show as escapes, and its length is
bounded. A server's stderr and its command line are attributes and a note (`__notes__`), so that tracebacks show
them and models do not. A connection that you closed yourself raises `trio.ClosedResourceError`.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from .error_base import NAME_SHOWN as NAME_SHOWN
from .error_base import SENTENCE_SHOWN as SENTENCE_SHOWN
from .error_base import MCPError as MCPError
from .error_base import renewed as renewed
from .error_base import tells_secret
from .redaction import NOTHING_SECRET, Redactor, bounded_line

#: How much of a payload that broke the protocol is kept: enough to recognise it, too little to flood a log.
PAYLOAD_SHOWN = 200
#: How much of a server's stderr a note shows, in characters: the last screenful.
TAIL_SHOWN = 4096
#: How many skipped tools the text of a `ToolImportError` names: a line that can still be read.
SKIPPED_SHOWN = 10

_PAYLOAD = "payload: "

_E = TypeVar("_E", bound=Exception)


class InvalidServerError(MCPError, ValueError):
    """Your configuration is wrong: `field` says where, `reason` why. Raised before anything is started."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class InvalidArgumentsError(MCPError, ValueError):
    """Your arguments are not one JSON object, or cannot be encoded. Nothing was sent."""

    def __init__(self, name: str, reason: str) -> None:
        sentence = f'arguments for "{bounded_line(str(name), NAME_SHOWN)}" are not a JSON object: {reason}'
        super().__init__(bounded_line(sentence, SENTENCE_SHOWN))
        self.name = name
        self.reason = reason


class UnknownToolError(MCPError, LookupError):
    """You named a tool that is not there, or that `Server.tools` hides. Nothing was sent.

    `nearest` holds known names that are like it, the likeliest first. For a name that the server itself does not
    know, the server answers with a `RequestError`.
    """

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        quoted, *names = [f'"{bounded_line(str(one), NAME_SHOWN)}"' for one in (name, *nearest)]
        super().__init__(f"unknown tool {quoted}" + (f"; did you mean {' or '.join(names)}?" if names else ""))
        self.name = name
        self.nearest: tuple[str, ...] = tuple(nearest)


class _ServerError(MCPError):
    """The facts that the two errors about a server's life share."""

    _happened: str

    def __init__(
        self,
        server: str,
        reason: str = "",
        *,
        command: Sequence[str] = (),
        returncode: int | None = None,
        stderr_tail: str = "",
        first_stderr_tail: str = "",
        junk: Sequence[str] = (),
        status: int | None = None,
        retry_after: float | None = None,
        redactor: Redactor = NOTHING_SECRET,
    ) -> None:
        reason = " ".join(redactor(reason or describe_exit(returncode)).split())
        reason = bounded_line(reason, SENTENCE_SHOWN)
        super().__init__(f'server "{server}" {self._happened}: {reason}')
        self.server = server
        self.reason = reason
        self.command: tuple[str, ...] = tuple(command)
        self.returncode = returncode
        self.stderr_tail = stderr_tail
        self.junk: tuple[str, ...] = tuple(junk)
        self.status = status
        self.retry_after = retry_after
        sections = [
            ("command", " ".join(command)),
            ("stderr of the first start", first_stderr_tail),
            ("stderr", stderr_tail),
            ("lines on stdout that were no messages", "\n".join(junk)),
        ]
        for title, text in sections:
            if text.strip():
                self.add_note(f"{title}:{_indented(redactor(text))}")

    def _facts(self) -> tuple[Any, ...]:
        return self.args, self.command, self.returncode, self.stderr_tail, self.status

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._facts() == self._facts()

    def __hash__(self) -> int:
        return hash((type(self), self._facts()))


class ServerStartError(_ServerError):
    """The server never came up: `reason` says why.

    `server` is its name, `command` the command line with secrets redacted, `returncode` the exit status (-N for
    signal N, None while it ran or when it is unknown), `stderr_tail` the raw end of its stderr, `status` the
    HTTP status where there was one, `retry_after` the seconds after which an HTTP server wants to be asked again
    (its header Retry-After), or None.
    """

    _happened = "did not start"


class ServerStoppedError(_ServerError):
    """The server went away while it was in use; attributes as in `ServerStartError`.

    Every pending call gets one, and so does each later call, at once. Over HTTP a connection ends this way only
    when its session cannot be replaced; one request that fails is an `ExchangeError`.
    """

    _happened = "stopped"


class ExchangeError(ServerStoppedError):
    """One request over HTTP failed, by the network or with `status`; the server may well live.

    The connection stays, and the next call may succeed. Whether the server has acted on the request is unknown.
    """

    _happened = "failed one request"


class RequestError(MCPError):
    """The server answered with a JSON-RPC error: its `code`, `message` and `data` (None when absent).

    Over HTTP, `status` is the status of a refusal that the error came with, and `retry_after` the seconds after
    which the server wants to be asked again; None otherwise.
    """

    def __init__(
        self,
        code: int,
        message: str,
        data: Any = None,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__()
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        self.retry_after = retry_after
        self._say()

    def _say(self) -> None:
        self._set_text(f"{bounded_line(self.message, SENTENCE_SHOWN)} (code {self.code})")

    def _redact(self, redactor: Redactor) -> None:
        super()._redact(redactor)
        self._say()  # anew: a secret may have been cut


class ProtocolError(MCPError):
    """The server broke the protocol. `payload` is what it sent, clipped to 200 characters."""

    def __init__(self, reason: str, payload: str | bytes = "") -> None:
        super().__init__()
        self._said = reason[: SENTENCE_SHOWN * 2]
        kept = payload[: PAYLOAD_SHOWN * 8]
        self._kept = kept if isinstance(kept, str) else kept.decode("utf-8", errors="replace")
        self._say()

    def _say(self) -> None:
        self.reason: str = bounded_line(self._said, SENTENCE_SHOWN)
        self._set_text(self.reason)
        self.payload: str = self._kept[:PAYLOAD_SHOWN]
        notes: list[str] = self.__dict__.setdefault("__notes__", [])
        notes[:] = [note for note in notes if not note.startswith(_PAYLOAD)]
        if self.payload:
            notes.insert(0, f"{_PAYLOAD}{bounded_line(self.payload, PAYLOAD_SHOWN)}")

    def _redact(self, redactor: Redactor) -> None:
        super()._redact(redactor)
        self._say()  # anew: a secret may have been cut


class AuthError(MCPError):
    """The server refused you with 401 or 403.

    `status` is the HTTP status; `challenge` a tuple of dicts, one for each challenge of WWW-Authenticate, with
    the scheme under "scheme" and its parameters.
    """

    def __init__(self, server: str, status: int, challenge: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(f'server "{server}" refused access: HTTP {status}')
        self.server = server
        self.status = status
        self.challenge: tuple[dict[str, str], ...] = tuple(dict(part) for part in challenge)


class Unauthorized(MCPError):  # noqa: N818 - HTTP's own word for it
    """Your `authorize` refuses a request: raise it there, and the client gets the status and the challenge.

    Args:
        challenge: what WWW-Authenticate says: one challenge or several, each with the scheme under "scheme"
            ("Bearer" where there is none) and its parameters. Without one it is "Bearer".
        status: 401 where the client has to say who it is, 403 where that is known and not enough.

    Raises:
        ValueError: `status` is neither.

    Example:
        >>> async def authorize(headers):
        ...     if headers.get("authorization") != "Bearer secret":
        ...         raise Unauthorized({"scheme": "Bearer", "error": "invalid_token"})
        ...     return "ada"
    """

    def __init__(
        self, challenge: Mapping[str, str] | Sequence[Mapping[str, str]] = (), *, status: Literal[401, 403] = 401
    ) -> None:
        if status not in (401, 403):
            raise ValueError(f"status: expected 401 or 403, got {status!r}")
        super().__init__("authorization is required" if status == 401 else "this is not permitted")
        several = [challenge] if isinstance(challenge, Mapping) else challenge
        self.challenge: tuple[dict[str, str], ...] = tuple(dict(part) for part in several)
        self.status = status


class FailedResult(Protocol):
    """The members of a `ToolResult` that a `ToolError` has at hand.

    `blocks` are its content blocks, `content` their text, `structured` and `structured_json` the structured output
    decoded and as the server sent it, `meta` the `_meta`.
    """

    @property
    def blocks(self) -> Any: ...  # a tuple; pyright sees the converter of `ToolResult.blocks` instead
    @property
    def content(self) -> str: ...
    @property
    def structured(self) -> Any: ...
    @property
    def structured_json(self) -> bytes | None: ...
    @property
    def meta(self) -> dict[str, Any] | None: ...


class ToolError(MCPError):
    """The tool ran and failed: `text` is what it said, `result` the whole `ToolResult`.

    A tool of yours may raise it to tell the model of a failure in these words and no others; of other exceptions
    the model reads the type as well. `result` is None then.
    """

    def __init__(self, text: str, result: FailedResult | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.result = result


class ApprovalRequiredError(MCPError):
    """The tool's policy requires approval, and nobody was asked."""

    def __init__(self, name: str) -> None:
        super().__init__(f'tool "{bounded_line(str(name), NAME_SHOWN)}" requires approval')
        self.name = name


class NotOfferedError(MCPError):
    """Your tool asks for something that the client does not offer; `capability` names it."""

    def __init__(self, capability: str) -> None:
        super().__init__(f"the client does not offer {capability}")
        self.capability = capability


class SkippedToolError(MCPError):
    """One listed tool cannot be imported; the server is at fault, the other tools stay.

    `name` is the tool's name (empty when that was the problem), `index` its place over all pages, `reason` one
    of "no-object", "undecodable", "no-name", "no-schema", "root-not-object", "root-ref", "bad-header" and
    "repeated-name", `cause` the underlying exception or None (also `__cause__`).
    """

    def __init__(self, name: str, index: int, reason: str, cause: BaseException | None = None) -> None:
        super().__init__()
        self.name = name
        self.index = index
        self.reason = reason
        self.cause = cause
        self.__cause__ = cause
        self._say()

    def _say(self) -> None:
        name = bounded_line(self.name, NAME_SHOWN)
        self._set_text(f'tool "{name}" at index {self.index} was skipped: {self.reason}')

    def _redact(self, redactor: Redactor) -> None:
        super()._redact(redactor)
        self.cause = None if tells_secret(self.cause, redactor) else self.cause
        self._say()  # anew: a secret may have been cut


class ToolImportError(MCPError, ExceptionGroup[SkippedToolError]):
    """Some tools of a listing cannot be imported: a group of one `SkippedToolError` each.

    Its text names the first ten tools, each with the reason, and how many more there are.
    """

    def __str__(self) -> str:
        skipped = [_skipped(error) for error in _leaves(self)]
        if len(skipped) > SKIPPED_SHOWN:
            skipped[SKIPPED_SHOWN:] = [f"and {len(skipped) - SKIPPED_SHOWN} more"]
        return f"{self.message}: {', '.join(skipped)}"

    def derive(self, excs: Sequence[_E]) -> ExceptionGroup[_E]:  # type: ignore[override]  # a part keeps the type
        return ToolImportError(self.message, excs)  # type: ignore[arg-type,return-value]  # typeshed: any part


def _leaves(group: BaseExceptionGroup[Any]) -> list[SkippedToolError]:
    """The errors of a group and of the groups in it: whoever catches may have nested them."""
    found: list[SkippedToolError] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _skipped(error: SkippedToolError) -> str:
    name = f'"{bounded_line(error.name, NAME_SHOWN)}"' if error.name else f"index {error.index}"
    return f"{name} ({error.reason})"


def describe_exit(returncode: int | None) -> str:
    """How a process ended, in words: its exit status, or the signal that ended it."""
    if returncode is None:
        return "exit status unknown"
    if returncode >= 0:
        return f"exited with status {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def _indented(text: str) -> str:
    shown = text[-TAIL_SHOWN:].strip("\n")
    return " " + shown if "\n" not in shown else "".join(f"\n  {line}" for line in shown.splitlines())
