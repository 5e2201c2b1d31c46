"""An agent for Anthropic's API with the tools of two MCP servers, one of which may spend money after asking.

    pip install trio-mcp anthropic
    python docs/examples/agent_anthropic.py

Needs neither network nor key: a script at the end of this file answers in place of the API, at the HTTP level.
With `anthropic.AsyncAnthropic()` in place of `scripted_client()` a real model has the same tools.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import trio

from trio_mcp import Approve, Policy, Server, Tool, Toolbox, ToolCall, default_environment, open_connections

MODEL = "claude-sonnet-5-5"
#: An agent that never comes to an end costs money.
MAX_TURNS = 10

BANK = str(Path(__file__).with_name("bank.py"))
SERVERS = [
    Server("bank", command=sys.executable, args=[BANK], env=default_environment()),
    Server("demo", command=sys.executable, args=["-m", "trio_mcp.demo"], env=default_environment()),
]


async def main() -> None:
    async with open_connections(SERVERS) as connections, scripted_client() as client:
        toolbox = Toolbox(careful(tool) for tool in connections.tools)
        await converse(client, toolbox, "Pay the gas works 90 and the prince 900. And paint something.", ask)


def careful(tool: Tool) -> Tool:
    """Ask before a tool runs that its server does not call read-only, and let no tool run for long."""
    return tool.with_policy(Policy(timeout=30, require_approval=not tool.annotations.read_only_hint))


async def ask(call: ToolCall) -> bool | str:
    """Ask whether a call may run: True is yes, a text is no and says why. This user is a script.

    A person would be asked by `await trio.to_thread.run_sync(input, "may it? ", abandon_on_cancel=True)`: without
    the last argument Ctrl-C would wait for the answer.
    """
    answer = True if call.arguments.get("amount", 0) <= 100 else "that is too much"
    print(f"  may it? {call.name} {json.dumps(call.arguments)} -> {'yes' if answer is True else answer}")
    return answer


async def converse(
    client: anthropic.AsyncAnthropic,
    toolbox: Toolbox,
    prompt: str,
    approve: Approve,
) -> None:
    """Talk with the model until it asks for no more calls, and print what happens."""
    print(f"user: {prompt}")
    tools: Any = toolbox.definitions("anthropic")
    conversation: list[Any] = [{"role": "user", "content": prompt}]
    for _ in range(MAX_TURNS):
        message = await client.messages.create(model=MODEL, max_tokens=2000, messages=conversation, tools=tools)
        for block in message.content:
            if block.type == "text":
                print(f"model: {block.text}")
        calls = toolbox.calls("anthropic", message)
        if not calls:
            return
        outcomes = await toolbox.run(calls, approve=approve)
        for outcome in outcomes:
            mark = "!" if outcome.is_error else "="
            shown = "".join(f" <{image.mime_type}>" for image in outcome.images)
            print(f"  {outcome.name} {mark} {outcome.content}{shown}")
        conversation.append({"role": "assistant", "content": message.content})
        conversation += toolbox.results("anthropic", outcomes)
    print("model: has used up its turns")


# --- In place of the API


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(id_: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


#: What the model says, turn by turn.
SCRIPT = [
    [
        text("I look at the account, and paint meanwhile."),
        use("toolu_1", "mcp__bank__balance", account="household"),
        use("toolu_2", "mcp__demo__picture"),
    ],
    [
        use("toolu_3", "mcp__bank__pay", account="household", amount=90, to="the gas works"),
        use("toolu_4", "mcp__bank__pay", account="household", amount=900, to="the prince"),
    ],
    [text("The gas works have their money. The prince has not: you called it too much.")],
]


def scripted_client() -> anthropic.AsyncAnthropic:
    """The real client, but for the transport under it."""
    http_client = anthropic.DefaultAsyncHttpxClient(transport=httpx2.MockTransport(answer))
    return anthropic.AsyncAnthropic(api_key="none", http_client=http_client)


def answer(request: httpx2.Request) -> httpx2.Response:
    """Answer as the API does: with the model's next turn, or a refusal where a call was not answered."""
    body = json.loads(request.read())
    messages = body["messages"]
    turn = SCRIPT[sum(message["role"] == "assistant" for message in messages)]
    names = {tool["name"] for tool in body["tools"]}
    if missing := [block["name"] for block in turn if block["type"] == "tool_use" and block["name"] not in names]:
        return refusal(f"the script calls tools that were not defined: {missing}")
    if len(messages) > 1:
        asked = {block["id"] for block in messages[-2]["content"] if block["type"] == "tool_use"}
        told = {block["tool_use_id"] for block in messages[-1]["content"] if block["type"] == "tool_result"}
        if asked != told:
            return refusal(f"`tool_use` ids without `tool_result` blocks immediately after: {asked - told}")
    more = any(block["type"] == "tool_use" for block in turn)
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": turn,
        "stop_reason": "tool_use" if more else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return httpx2.Response(200, json=message)


def refusal(reason: str) -> httpx2.Response:
    error = {"type": "invalid_request_error", "message": reason}
    return httpx2.Response(400, json={"type": "error", "error": error})


if __name__ == "__main__":
    trio.run(main)
