"""An agent with the tools of two servers, from the user's question to the last answer.

Run it: it needs no network. The model is a script, so that the same happens every time. In its first turn it asks
for two calls at once, and the user stops the slow one while the turn goes on; in its second it wants to send two
letters, and the user is asked about each. With a real model, `toolbox.definitions`, `toolbox.calls` and
`toolbox.results` take the place of the script: they translate to and from the providers' APIs.
"""

import json
import os
import sys
from pathlib import Path

import trio

from trio_mcp import Policy, Server, Toolbox, ToolCall, ToolOutcome, open_connection

HERE = Path(__file__).parent

#: The model's text in each turn, and the calls that it asks for; a turn without calls is the last.
SCRIPT = [
    (
        "I look into the catalogue, and send somebody to the stacks.",
        [
            ToolCall("call_1", "mcp__library__find", '{"subject": "tides"}'),
            ToolCall("call_2", "mcp__library__search_stacks", '{"subject": "tides"}'),
        ],
    ),
    (
        "Two books. I write to Ada, and tell everybody else as well.",
        [
            ToolCall("call_3", "mcp__mail__send", '{"to": "ada", "text": "The library has two books on tides."}'),
            ToolCall("call_4", "mcp__mail__send", '{"to": "everybody", "text": "Read more about tides!"}'),
        ],
    ),
    ("There are two books on tides, and Ada knows. I did not write to everybody else.", []),
]


class ScriptedModel:
    """Gives the answers of the script, one by one. A real model would read the conversation."""

    def __init__(self) -> None:
        self._turns = iter(SCRIPT)

    async def answer(self, conversation: list[object]) -> tuple[str, list[ToolCall]]:
        await trio.lowlevel.checkpoint()
        return next(self._turns)


async def approve(call: ToolCall) -> bool | str:
    """Ask the user, who does not write to everybody: a text is no, and says why.

    Here the user is a script. A person would be asked by `await trio.to_thread.run_sync(input, "may it? ",
    abandon_on_cancel=True)`: without the last argument Ctrl-C would wait for the answer.
    """
    to = json.loads(call.arguments)["to"]
    answer = True if to != "everybody" else "not to everybody"
    print(f"  [may it write to {to}? {'yes' if answer is True else answer}]")
    return answer


async def talk(question: str, toolbox: Toolbox) -> None:
    """The loop itself: the model answers, its calls are run, their outcomes go back to it."""
    model = ScriptedModel()
    conversation: list[object] = [question]
    print(f"user: {question}")
    while True:
        text, calls = await model.answer(conversation)
        print(f"model: {text}")
        if not calls:
            return
        for call in calls:
            print(f"  {call.id} -> {call.name} {call.arguments}")
        outcomes = await toolbox.run(calls, approve=approve)
        for outcome in outcomes:
            print(f"  {outcome.id} <- {state(outcome)}: {outcome.content}")
        conversation += [text, outcomes]


def state(outcome: ToolOutcome) -> str:
    if outcome.refused:
        return "refused"
    return "failed" if outcome.is_error else "done"


def example_server(name: str) -> Server:
    # They are programs of ours, so they get our whole environment; others get `default_environment()`.
    return Server(name, command=sys.executable, args=[str(HERE / f"{name}_server.py")], env=os.environ)


async def main() -> None:
    called_back = trio.Event()

    def on_log(level: str, logger: str | None, data: object) -> None:
        print(f"  [the library says: {data}]")
        print("  [the user presses stop]")
        toolbox.cancel("call_2")  # ends this one call; the turn goes on

    def on_stderr(line: str) -> None:
        if "called back" in line:
            called_back.set()

    policies = {
        "find": Policy(timeout=10, max_result_bytes=4_000),
        "search_stacks": Policy(),
        "send": Policy(timeout=10, require_approval=True),
    }
    async with (
        open_connection(example_server("library"), on_log=on_log, on_stderr=on_stderr) as library,
        open_connection(example_server("mail")) as mail,
    ):
        tools = [tool.with_policy(policies[tool.remote_name]) for tool in (*library.tools, *mail.tools)]
        print(f"tools: {', '.join(tool.name for tool in tools)}")
        toolbox = Toolbox(tools)
        await talk("What is there on tides? Tell Ada.", toolbox)
        with trio.fail_after(10):
            await called_back.wait()
        print("[whoever searched the stacks was called back the moment the user pressed stop]")


if __name__ == "__main__":
    trio.run(main)
