"""How a client finds out which era and which revision a server speaks.

A server is asked `server/discover` first; a server that is not positively modern is legacy. `Negotiation` is that
decision as a machine without a clock and without I/O: its driver reports what happened (answered, failed, silent,
exited) and is told what to do. It knows nothing of processes, HTTP or ids.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from .messages import HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION
from .revisions import LEGACY_VERSIONS, META_SERVER_INFO, MODERN_VERSIONS, Era, ProtocolChoice

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


@attrs.frozen
class Discover:
    """Send `server/discover` with this revision, and report `silent` if it is not answered within the patience."""

    version: str


@attrs.frozen
class Initialize:
    """Send `initialize` with this revision. The probe may still be open: then listen for both answers."""

    version: str


@attrs.frozen
class Restart:
    """Start the process once more, then ask `begin` again."""


@attrs.frozen
class Wait:
    """Nothing to do."""


@attrs.frozen
class Agreed:
    """Done: this is what both sides speak, and what the server said of itself. Drop what is still open."""

    era: Era
    version: str
    server_info: dict[str, Any]
    capabilities: dict[str, Any]
    instructions: str | None


@attrs.frozen
class Refused:
    """Done: there is nothing that both sides speak. `reason` is one line."""

    reason: str


@attrs.frozen
class Died:
    """Done: the process exited, and starting it again would not help; or the server cannot be reached."""


Decision = Discover | Initialize | Restart | Wait | Agreed | Refused | Died

_WAIT = Wait()
#: How many revisions of a peer's list stand in a reason. The reason is cut where secrets have been hidden in it.
_REVISIONS = 20
_KNOWN_MODERN = frozenset(MODERN_VERSIONS)
_Stage = Literal["unsent", "open", "closed"]


class Negotiation:
    """One negotiation with one server. Reports that no longer matter, or never did, are answered with `Wait`.

    Args:
        protocol: "auto", "modern", "legacy", or one revision that alone is acceptable.
        remembered: the era that this server spoke last time. It only spares "auto" a probe.
        restarts: the server is a process that was started for this: it may be started once more, and where it is
            silent it is sent a handshake besides. Not so a server that was there before.

    >>> negotiation = Negotiation("auto", None)
    >>> negotiation.begin()
    Discover(version='2026-07-28')
    >>> negotiation.discover_failed(-32601, "Method not found", None)
    Initialize(version='2025-11-25')
    >>> negotiation.initialize_answered({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}})
    Agreed(era='legacy', version='2025-06-18', server_info={}, capabilities={'tools': {}}, instructions=None)
    """

    def __init__(self, protocol: ProtocolChoice, remembered: Era | None, *, restarts: bool = True) -> None:
        self._modern, self._legacy = _acceptable(protocol)
        self._restarts = restarts
        self._plainly = not self._modern or (bool(self._legacy) and remembered == "legacy")
        self._probe: _Stage = "unsent"
        self._handshake: _Stage = "unsent"
        self._handshake_error = ""
        self._is_corrected = False  # `initialize` has been sent again, with a revision that the server named
        self._is_modern = False  # it said so, although no revision has been agreed on
        self._over = False

    def begin(self) -> Decision:
        """The server can be reached: the first message. Once more after `Restart`."""
        if self._over or self._probe != "unsent" or self._handshake != "unsent":
            return _WAIT
        return self._initialize(self._legacy[0]) if self._plainly else self._discover(self._modern[0])

    def discover_answered(self, result: Any) -> Decision:
        """The probe was answered with a result."""
        if self._over or self._probe != "open":
            return _WAIT
        offered = _offered(result)
        if offered is None:
            return self._not_modern("server/discover was answered with something else")
        for version in self._modern:
            if version in offered:
                return self._agreed("modern", version, _modern_server_info(result), result)
        return self._only_legacy(offered)

    def discover_failed(self, code: int, message: str, data: Any) -> Decision:
        """The probe was answered with an error."""
        if self._over or self._probe != "open":
            return _WAIT
        reason = f"server/discover failed: {_worded(code, message)}"
        supported = data.get("supported") if isinstance(data, dict) else None
        if code in (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY):
            return self._refused(reason)
        if code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(supported, list):
            return self._not_modern(reason)
        # One correction, also where the list names the very revision just sent (conformance suite).
        if self._is_modern:
            return self._refused(reason)
        self._is_modern = True
        for version in self._modern:
            if version in supported:
                return self._discover(version)
        return self._only_legacy(supported)

    def discover_refused(self, reason: str) -> Decision:
        """The probe was refused by what carries messages: an HTTP status of 400 to 499."""
        if self._over or self._probe != "open":
            return _WAIT
        return self._not_modern(f"server/discover failed: {reason}")

    def silent(self) -> Decision:
        """The probe has not been answered within the patience of the driver."""
        if self._over or self._probe != "open" or self._is_modern or not self._legacy or not self._restarts:
            return _WAIT
        if self._handshake == "closed" and self._plainly:  # both roads were tried
            return self._refused(self._handshake_error)
        return self._initialize(self._legacy[0]) if self._handshake == "unsent" else _WAIT

    def initialize_answered(self, result: Any) -> Decision:
        """`initialize` was answered with a result."""
        if self._over or self._handshake != "open":
            return _WAIT
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        if not isinstance(version, str):
            return self._handshake_failed("initialize was answered without a protocolVersion")
        # "If the client does not support the version in the server's response, it SHOULD disconnect."
        # (2025-11-25, basic/lifecycle)
        if version not in self._legacy:
            return self._no_common([version])
        return self._agreed("legacy", version, result.get("serverInfo"), result)

    def initialize_failed(self, code: int, message: str, data: Any) -> Decision:
        """`initialize` was answered with an error."""
        if self._over or self._handshake != "open":
            return _WAIT
        reason = f"initialize failed: {_worded(code, message)}"
        supported = data.get("supported") if isinstance(data, dict) else None
        if isinstance(supported, list):
            reason += f"; the server speaks {_listed(supported)}"
            if not self._is_corrected:  # once: the next refusal is final
                self._is_corrected = True
                for version in self._legacy[1:]:
                    if version in supported:
                        return self._initialize(version)
        return self._handshake_failed(reason)

    def initialize_refused(self, reason: str) -> Decision:
        """`initialize` was refused by what carries messages."""
        if self._over or self._handshake != "open":
            return _WAIT
        return self._handshake_failed(reason)

    def exited(self) -> Decision:
        """The process has exited, or the server cannot be reached."""
        if self._over or self._probe == self._handshake == "unsent":
            return _WAIT
        if self._handshake == "closed" and self._plainly:
            return self._refused(self._handshake_error)
        # To some legacy servers everything but initialize is fatal, at once or after an error answer.
        if self._restarts and self._probe != "unsent" and self._legacy and not self._is_modern:
            self._probe = self._handshake = "unsent"
            self._modern = ()
            self._plainly = True
            return Restart()
        self._over = True
        return Died()

    def _discover(self, version: str) -> Decision:
        self._probe = "open"
        return Discover(version)

    def _initialize(self, version: str) -> Decision:
        self._handshake = "open"
        return Initialize(version)

    def _only_legacy(self, offered: Sequence[Any]) -> Decision:
        """The server knows the modern era, and lists no modern revision that is known here."""
        for version in self._legacy:
            if version in offered:
                return self._fall_back(version)
        return self._no_common(offered)

    def _not_modern(self, reason: str) -> Decision:
        """The probe has shown nothing that is positively modern."""
        if not self._legacy:
            return self._refused(f"the server speaks no modern protocol revision: {reason}")
        if self._is_modern:
            return self._refused(reason)
        return self._fall_back(self._legacy[0])

    def _fall_back(self, version: str) -> Decision:
        self._probe = "closed"
        if self._handshake == "unsent":
            return self._initialize(version)
        return _WAIT if self._handshake == "open" else self._refused(self._handshake_error)

    def _handshake_failed(self, reason: str) -> Decision:
        self._handshake = "closed"
        self._handshake_error = reason
        if self._probe == "open":
            return _WAIT
        if self._probe == "unsent" and self._modern:  # what was remembered may be out of date
            return self._discover(self._modern[0])
        return self._refused(reason)

    def _no_common(self, offered: Sequence[Any]) -> Decision:
        theirs, ours = _listed(offered), _listed([*self._modern, *self._legacy])
        return self._refused(f"no common protocol revision: the server speaks {theirs}, this client {ours}")

    def _refused(self, reason: str) -> Decision:
        self._over = True
        return Refused(reason)

    def _agreed(self, era: Era, version: str, server_info: Any, result: dict[str, Any]) -> Decision:
        self._over = True
        instructions = result.get("instructions")
        return Agreed(
            era,
            version,
            _object(server_info),
            _object(result.get("capabilities")),
            instructions if isinstance(instructions, str) else None,
        )


class EraMemory:
    """Which era each server spoke last, while the process lives: spares legacy servers the probe.

    >>> memory = EraMemory(limit=1)
    >>> memory.remember(("uvx", "a"), "legacy")
    >>> memory.remember(("uvx", "b"), "modern")
    >>> memory.recall(("uvx", "a")), memory.recall(("uvx", "b"))
    (None, 'modern')
    """

    #: Servers remembered at most; beyond it the one that was remembered longest ago is forgotten. An entry is
    #: small, and forgetting one costs a probe.
    LIMIT = 1024

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._eras: dict[Hashable, Era] = {}
        self._lock = threading.Lock()  # a program may run trio in several threads

    def __len__(self) -> int:
        return len(self._eras)

    def remember(self, key: Hashable, era: Era) -> None:
        """This server speaks that era. `key` is how it is reached: (command, args, cwd), or its URL.

        None: nobody can reach it again.
        """
        if key is None:
            return
        with self._lock:
            self._eras.pop(key, None)
            self._eras[key] = era
            while len(self._eras) > self._limit:
                del self._eras[next(iter(self._eras))]

    def recall(self, key: Hashable) -> Era | None:
        """The era that this server spoke last; None when that is not known."""
        return self._eras.get(key)

    def clear(self) -> None:
        """Forget every server."""
        with self._lock:
            self._eras.clear()

    def forget(self, key: Hashable) -> None:
        """Forget this server: what was remembered of it proved wrong."""
        with self._lock:
            self._eras.pop(key, None)


#: The memory of this process.
ERAS: Final = EraMemory()


def _acceptable(protocol: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The modern and the legacy revisions that `Server.protocol` admits."""
    match protocol:
        case "auto":
            return MODERN_VERSIONS, LEGACY_VERSIONS
        case "modern":
            return MODERN_VERSIONS, ()
        case "legacy":
            return (), LEGACY_VERSIONS
    if protocol in MODERN_VERSIONS:
        return (protocol,), ()
    if protocol in LEGACY_VERSIONS:
        return (), (protocol,)
    raise ValueError(f"unknown protocol {protocol!r}")


def _offered(result: Any) -> list[str] | None:
    """The revisions that a DiscoverResult lists; None when this is no DiscoverResult."""
    if not isinstance(result, dict) or result.get("resultType") not in (None, "complete"):
        return None
    versions = result.get("supportedVersions")
    if isinstance(versions, str):  # one for a list
        versions = [versions]
    if not isinstance(versions, list):
        return None
    # An odd member costs itself.
    found = [version for version in versions if isinstance(version, str)]
    # To name a modern revision is to be modern; without one, only the whole form tells.
    capabilities = result.get("capabilities")
    is_whole = len(found) == len(versions) and (isinstance(capabilities, dict) or capabilities == [])
    return found if is_whole or not _KNOWN_MODERN.isdisjoint(found) else None


def _modern_server_info(result: dict[str, Any]) -> Any:
    """From `_meta`, where it belongs; from the body, where drafts of the revision had it."""
    return _object(result.get("_meta")).get(META_SERVER_INFO) or result.get("serverInfo")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _worded(code: int, message: str) -> str:
    return " ".join(f"{message} (code {code})".split())


def _listed(versions: Sequence[Any]) -> str:
    """A peer's list of revisions in one short line: it may have sent anything."""
    words = [" ".join(version.split()) for version in versions if isinstance(version, str)]
    return ", ".join(words[:_REVISIONS]) or "none"
