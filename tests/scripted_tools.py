"""What the tools of scripted_peer.py do. Each is given the peer, the request's id, the arguments, the `_meta`."""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes as long as starting
    from typing import Any

OBJECT = {"type": "object"}


def text(value: str, **more: Any) -> dict[str, Any]:
    """A result of tools/call."""
    return {"content": [{"type": "text", "text": value}], **more}


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however long that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view[: 1 << 20]) :]


def echo(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Gives back the arguments, as JSON in which nothing is escaped that need not be."""
    peer.answer(id_, text(json.dumps(arguments, ensure_ascii=False)))


def wait(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Answers after `seconds`."""
    peer.after(arguments["seconds"], peer.answer, id_, text("waited"))


def hang(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Never answers; tells the test that it was called, and the id."""
    peer.tell(f"hang {id_}")


def gather(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Answers when `count` calls are there, all at once, the last first, each with its own `n`."""
    peer.held.append((id_, arguments["n"]))
    if len(peer.held) == arguments["count"]:
        for held, n in reversed(peer.held):
            peer.answer(held, text(str(n)))
        peer.held.clear()


def exit_(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Exits with `status`, after `moan` to stderr."""
    write_all(2, arguments.get("moan", "").encode())
    os._exit(arguments["status"])


def kill(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Ends by `signal` (SIGSTOP: stops)."""
    os.kill(os.getpid(), arguments["signal"])


def close(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Closes its `descriptor`, and lives on."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, arguments["descriptor"])
    os.close(null)


def huge(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """A text that makes the whole answer a line of `line` bytes, its end included; written in blocks."""
    head, tail = json.dumps({"jsonrpc": "2.0", "id": id_, "result": text("|")}).encode().split(b"|")
    write_all(1, head)
    rest = arguments["line"] - len(head) - len(tail) - 1
    block = b"x" * (1 << 20)
    while rest > len(block):
        write_all(1, block)
        rest -= len(block)
    write_all(1, block[:rest] + tail + b"\n")


def say(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Writes `data` as it is: characters below 256 are bytes, %ID% is the id_, %TOKEN% the progress token.

    Then answers, unless `answer` is false; with `cut`, each piece of that many bytes is a write of its own.
    """
    token = json.dumps(meta.get("progressToken"))
    data = arguments["data"].replace("%ID%", str(id_)).replace("%TOKEN%", token).encode("latin-1")
    cut = arguments.get("cut") or max(len(data), 1)
    for begin in range(0, len(data), cut):
        write_all(1, data[begin : begin + cut])
        if cut < len(data):
            time.sleep(0.001)  # so that the reader sees pieces
    if arguments.get("answer", True):
        peer.answer(id_, text("said"))


def question(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Asks the client `method` with `params`; the result is what it answered, as JSON."""

    def then(message: dict[str, Any]) -> None:
        peer.answer(id_, text(json.dumps(message)))

    peer.ask(arguments["method"], arguments.get("params", {}), then)


def seen(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Every message received so far, as JSON."""
    peer.answer(id_, text(json.dumps(peer.seen)))


def progress(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """`steps` notifications of progress, then the answer, all in one write."""
    steps = [
        {
            "progressToken": meta.get("progressToken", 0),
            "progress": step,
            "total": arguments["steps"],
            "message": str(step),
        }
        for step in range(1, arguments["steps"] + 1)
    ]
    messages = [{"jsonrpc": "2.0", "method": "notifications/progress", "params": step} for step in steps]
    write_all(1, b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    peer.answer(id_, text("done"))


def moan(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """Writes `size` bytes to stderr, in lines unless `endless`, before it answers."""
    line = b"m" * 99 + (b"m" if arguments.get("endless") else b"\n")
    write_all(2, line * (arguments["size"] // 100))
    peer.answer(id_, text("moaned"))


def environment(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """The whole environment, the working directory, session and group, as JSON."""
    facts = {
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "pid": os.getpid(),
        "sid": os.getsid(0),
        "pgid": os.getpgid(0),
    }
    facts["fds"] = sorted(int(entry) for entry in os.listdir("/dev/fd"))
    peer.answer(id_, text(json.dumps(facts)))


def change(peer: Any, id_: Any, arguments: dict[str, Any], meta: dict[str, Any]) -> None:
    """`times` notices that the list has changed, then lists `tools` from now on; answers."""
    peer.options["tools"] = arguments.get("tools", peer.options["tools"])
    for _ in range(arguments.get("times", 1)):
        peer.notify("notifications/tools/list_changed")
    peer.answer(id_, text("changed"))


CALLS = {
    "echo": echo,
    "wait": wait,
    "hang": hang,
    "gather": gather,
    "exit": exit_,
    "kill": kill,
    "close": close,
    "huge": huge,
    "say": say,
    "question": question,
    "seen": seen,
    "progress": progress,
    "moan": moan,
    "environment": environment,
    "change": change,
}
