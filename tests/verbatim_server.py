"""A legacy stdio server of the standard library alone whose listing and results are these very bytes.

Among its tools are those over which clients stumble: a schema without `type`, and an output schema whose root is
no object. `echo` gives back the bytes of the line that it was called with, between its outermost braces of
`arguments`. Nothing here may import trio_mcp.
"""

from __future__ import annotations

import json
import sys

#: The schemas as they are sent. Numbers, key order and inner spaces are such that no JSON library keeps them all.
TYPELESS = '{ "properties":{"z":{"maximum":1.10,"minimum":-1e2},"a":{"const":123456789012345678901234567890}} }'
OBJECT = '{"type":"object",  "x-odd":[1.0, 2e0]}'
ARRAY = '{"type":"array","items":{"type":"number","maximum":1e2}}'
ENTRIES = {
    "echo": f'{{"name":"echo","inputSchema":{OBJECT}}}',
    "typeless": f'{{"name":"typeless","title":"No type","inputSchema":{TYPELESS},"x-unknown":{{"kept":1}}}}',
    "numbers": f'{{"name":"numbers","inputSchema":{{"type":"object"}},"outputSchema":{ARRAY}}}',
    "rich": '{"name":"rich","inputSchema":{},"annotations":{"readOnlyHint":true},"_meta":{"a/b":[1]}}',
    "failing": '{"name":"failing","inputSchema":{"type":"object"}}',
}
#: The results as they are sent, but for that of `echo`.
RESULTS = {
    "typeless": '{"content":[]}',
    "numbers": '{"content":[{"type":"text","text":"[1, 2]"}],"structuredContent":[1, 2.50]}',
    "rich": '{"content":[{"type":"text","text":"a","annotations":{"audience":["user"]}},'
    '{"type":"image","data":"iVBORw==","mimeType":"image/png","_meta":{"b":2}},'
    '{"type":"hologram","depth":3}],'
    '"structuredContent":{"z": 1.10,"a":{"big":123456789012345678901234567890}},"_meta":{"trace":"t-1"}}',
    "failing": '{"content":[{"type":"text","text":"it failed"}],"isError":true,"_meta":{"why":["x"]}}',
}
INFO = '"capabilities":{"tools":{}},"serverInfo":{"name":"verbatim","version":"1"}'


def arguments_of(line: str) -> str:
    """What stands in a line behind `"arguments":`, up to the brace that closes it."""
    begin = line.index('"arguments":') + len('"arguments":')
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    return line[begin : decoder.raw_decode(line, begin)[1]]


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        params = message.get("params", {})
        match message["method"]:
            case "initialize":
                outcome = f'"result":{{"protocolVersion":{json.dumps(params["protocolVersion"])},{INFO}}}'
            case "tools/list":
                outcome = f'"result":{{"tools":[{",".join(ENTRIES.values())}]}}'
            case "tools/call" if params["name"] == "echo":
                text = json.dumps(arguments_of(line))
                outcome = f'"result":{{"content":[{{"type":"text","text":{text}}}]}}'
            case "tools/call":
                outcome = f'"result":{RESULTS[params["name"]]}'
            case _:
                outcome = '"error":{"code":-32601,"message":"no such method"}'
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},{outcome}}}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    main()
