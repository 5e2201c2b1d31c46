"""A stdio MCP server of the standard library alone, which does what it is told: the child program of peers.py.

Its one argument is a JSON object of options (`DEFAULTS`). What its tools do stands in scripted_tools.py. With the
option `source`, Python source runs in this namespace first: it may replace a tool (`CALLS["echo"] = ...`), a
method of `Peer` or of this `peer`, or everything. One thread, one loop; what must happen later is in a heap, so
that a slow answer holds up no other. Nothing here may import trio_mcp, or anything that is slow to import.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import signal
import sys
import time

import scripted_tools
from scripted_tools import CALLS, OBJECT, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes as long as starting, and most servers need no socket
    import socket
    from collections.abc import Callable
    from typing import Any, NoReturn

    Message = dict[str, Any]
    Options = dict[str, Any]

DEFAULTS: Options = {
    "era": "both",  # "legacy", "modern" or "both"
    "revision": "2025-11-25",  # the legacy one
    "probe": "error",  # a legacy server asked for anything before initialize: "error", "silent", "exit", "result"
    "probe_code": -32601,
    "discover_delay": 0,  # seconds
    "initialize_delay": 0,
    "start_delay": 0,  # before anything is read
    "tools": None,  # entries of tools/list: dicts, or anything; None: every tool of CALLS
    "pages": None,  # the results of tools/list by cursor ("" the first), instead of `tools`
    "list_changed": False,  # offered or not
    "alive": None,  # a port on localhost to connect to: tells what happens, breaks when this process is gone
    "label": "server",  # how it introduces itself there
    "banner": "",  # written to stdout first, characters below 256 are bytes
    "moan": "",  # written to stderr first
    "die": None,  # exit with this status right then, or by this signal when it is negative
    "on_eof": "exit",  # "exit", "ignore", or seconds that it takes
    "on_term": "default",  # "default", "ignore", "exit"
    "exit_status": 0,  # after EOF
    "marker": None,  # a file written at EOF, after the seconds that it takes
    "flood": 0,  # bytes written to stdout and to stderr at EOF, before exit
    "children": [],  # in our group: "quiet" (no pipes), "holding" (ours), "stubborn" (deaf to SIGTERM);
    # "escaped": in a session of its own, holding our pipes
    "wrapper": None,  # "waits": a wrapper that starts the server and waits; "leaves": it exits at once
    "source": "",
}
META = "io.modelcontextprotocol/"
INFO = {"name": "scripted", "version": "1"}


def start(options: Options) -> int:
    """Start this program again, in our group and with our pipes."""
    launch = sys.orig_argv[:-2]  # all but the options and the count
    argv = [*launch, json.dumps(options), "again"]
    return os.posix_spawn(sys.executable, argv, os.environ)


def start_child(options: Options) -> None:
    """Start a child that is no server, and wait until it is ready."""
    ready, its = os.pipe()
    os.set_inheritable(its, True)
    start({**options, "ready": its})
    os.close(its)
    os.read(ready, 1)
    os.close(ready)


class Peer:
    """The server."""

    def __init__(self, options: Options) -> None:
        self.options = {**DEFAULTS, **options}
        self.socket: socket.socket | None = None
        self.seen: list[Message] = []  # every message received
        self.buffer: list[bytes] = []
        self.later: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self.order = 0
        self.initialized = False
        self.modern = False  # spoken to in this era
        self.held: list[tuple[Any, int]] = []  # calls of `gather`
        self.questions = 0
        self.asked: dict[str, Callable[[Message], None]] = {}  # our questions: id -> what to do with the answer

    # --- to the test

    def connect(self) -> None:
        if self.options["alive"]:
            import socket  # most servers need none, and there are many

            self.socket = socket.create_connection(("127.0.0.1", self.options["alive"]))
            self.tell(self.options["label"])

    def tell(self, line: str) -> None:
        if self.socket:
            self.socket.sendall(line.encode() + b"\n")

    # --- to the client

    def send(self, message: Message) -> None:
        write_all(
            1,
            json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n",
        )

    def answer(self, id_: Any, result: Message) -> None:
        if self.modern:
            result = {"resultType": "complete", **result}
            result["_meta"] = {META + "serverInfo": INFO, **result.get("_meta", {})}
        self.send({"id": id_, "result": result})

    def refuse(self, id_: Any, code: int, message: str, **more: Any) -> None:
        self.send({"id": id_, "error": {"code": code, "message": message, **more}})

    def notify(self, method: str, params: Message | None = None) -> None:
        self.send({"method": method} if params is None else {"method": method, "params": params})

    def ask(self, method: str, params: Message, then: Callable[[Message], None]) -> None:
        id_ = f"q{self.questions}"
        self.questions += 1
        self.asked[id_] = then
        self.send({"id": id_, "method": method, "params": params})

    def after(self, seconds: float, do: Callable[..., object], *args: Any) -> None:
        self.order += 1
        heapq.heappush(self.later, (time.monotonic() + seconds, self.order, do, args))

    # --- the loop

    def serve(self) -> None:
        """Read until EOF, and do what is due."""
        while True:
            wait = max(0, self.later[0][0] - time.monotonic()) if self.later else None
            if select.select([0], [], [], wait)[0]:
                chunk = os.read(0, 65536)
                if not chunk:
                    self.eof()
                self.take(chunk)
            while self.later and self.later[0][0] <= time.monotonic():
                _, _, do, args = heapq.heappop(self.later)
                do(*args)

    def take(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join([*self.buffer, end])
            self.buffer.clear()
            self.message(json.loads(line))
        if rest:
            self.buffer.append(rest)

    def eof(self) -> NoReturn:
        self.tell("eof")
        options = self.options
        if options["on_eof"] == "ignore":
            while True:
                signal.pause()
        if options["on_eof"] != "exit":
            end = time.monotonic() + options["on_eof"]
            while (rest := end - time.monotonic()) > 0:
                time.sleep(rest)
        for descriptor in (1, 2) if options["flood"] else ():
            write_all(descriptor, b"f" * options["flood"])
        if options["marker"]:
            with open(options["marker"], "w") as file:
                file.write("tidied up")
        os._exit(options["exit_status"])

    # --- messages

    def message(self, message: Message) -> None:
        self.seen.append(message)
        method, id_ = message.get("method"), message.get("id")
        if method is None:
            then = self.asked.pop(str(id_), None)
            if then is not None:
                then(message)
        elif id_ is None:
            self.tell(method)
        elif method == "initialize" and self.options["era"] != "modern":
            self.after(self.options["initialize_delay"], self.initialize, message)
        elif not self.initialized and self.options["era"] == "legacy":
            self.too_early(message)
        elif method == "server/discover" and self.options["era"] != "legacy":
            self.after(self.options["discover_delay"], self.discover, message)
        else:
            self.request(id_, method, message.get("params") or {})

    def too_early(self, message: Message) -> None:
        match self.options["probe"]:
            case "exit":
                os._exit(1)
            case "result":
                self.answer(message["id"], {})
            case "error":
                self.refuse(message["id"], self.options["probe_code"], "not initialized")

    def capabilities(self) -> Message:
        return {"tools": {"listChanged": True} if self.options["list_changed"] else {}}

    def initialize(self, message: Message) -> None:
        self.initialized = True
        revision = self.options["revision"]
        result = {"protocolVersion": revision, "capabilities": self.capabilities(), "serverInfo": INFO}
        self.send({"id": message["id"], "result": result})

    def discover(self, message: Message) -> None:
        self.modern = True
        self.answer(message["id"], {"supportedVersions": ["2026-07-28"], "capabilities": self.capabilities()})

    def request(self, id_: Any, method: str, params: Message) -> None:
        meta = params.get("_meta") or {}
        self.modern = META + "protocolVersion" in meta
        if not self.modern and not self.initialized:
            self.refuse(id_, -32602, "neither initialized nor modern")
        elif method == "tools/list":
            self.answer(id_, self.page(params.get("cursor", "")))
        elif method == "tools/call" and params["name"] in CALLS:
            CALLS[params["name"]](self, id_, params["arguments"], meta)
        elif method == "tools/call":
            self.refuse(id_, -32602, "unknown tool")
        elif method == "subscriptions/listen" and self.options["list_changed"]:
            subscribed = {"notifications": {"toolsListChanged": True}, "_meta": {META + "subscriptionId": id_}}
            self.notify("notifications/subscriptions/acknowledged", subscribed)
        else:
            self.refuse(id_, -32601, "no such method")

    def page(self, cursor: str) -> Any:
        if self.options["pages"] is not None:
            return self.options["pages"][cursor]
        tools = self.options["tools"]
        return {"tools": [{"name": name, "inputSchema": OBJECT} for name in CALLS] if tools is None else tools}


def be_child(options: Options) -> None:
    """A child of the server: does nothing until somebody kills it, or the test is over."""
    if options["child"] == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options["child"] == "escaped":
        os.setsid()
    if options["child"] in ("quiet", "stubborn"):
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
    peer = Peer(options)
    peer.connect()
    os.close(options["ready"])
    while peer.socket is None or peer.socket.recv(1):
        signal.pause()


def main() -> None:
    options = {**DEFAULTS, **json.loads(sys.argv[1])}
    if "child" in options:
        be_child(options)
    if options["wrapper"]:
        wrapped = start({**options, "wrapper": None})
        peer = Peer({**options, "label": "wrapper"})
        peer.connect()
        if options["wrapper"] == "waits":
            os.waitpid(wrapped, 0)
        os._exit(0)
    if options["on_term"] != "default":
        deaf = options["on_term"] == "ignore"
        signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else lambda *_: os._exit(0))
    peer = Peer(options)
    peer.connect()
    for index, kind in enumerate(options["children"]):
        start_child({"child": kind, "label": f"child{index}", "alive": options["alive"]})
    write_all(1, options["banner"].encode("latin-1"))
    write_all(2, options["moan"].encode())
    exec(options["source"], {**vars(scripted_tools), **globals(), "peer": peer})
    if options["die"] is not None:
        if options["die"] < 0:
            os.kill(os.getpid(), -options["die"])
        os._exit(options["die"])
    time.sleep(options["start_delay"])
    peer.serve()
