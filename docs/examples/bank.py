"""An MCP server with two tools, for the agents beside it: `python docs/examples/bank.py` serves it over stdio."""

from __future__ import annotations

import attrs
import trio

from trio_mcp import ToolError, ToolServer, serve_stdio, tool

balances = {"household": 250}


@attrs.frozen
class Balance:
    """The structured output of `balance`."""

    account: str
    amount: int


@tool(read_only=True)
async def balance(account: str) -> Balance:
    """Tell how much is in an account."""
    return Balance(account, _look_up(account))


@tool
async def pay(account: str, amount: int, to: str) -> str:
    """Pay somebody from an account."""
    if amount > _look_up(account):
        raise ToolError(f"{account} has only {balances[account]}")
    balances[account] -= amount
    return f"paid {amount} to {to}"


def _look_up(account: str) -> int:
    if account not in balances:
        raise ToolError(f"there is no account {account}")
    return balances[account]


server = ToolServer("bank")
server.add_tools(balance, pay)

if __name__ == "__main__":
    trio.run(serve_stdio, server)
