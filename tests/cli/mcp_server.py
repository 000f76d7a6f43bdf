"""A server of the Model Context Protocol that keeps what clients say to it: mcp_server.py FILE

It has one tool, `echo`, and speaks whatever version it is asked for. Each line that it reads is appended to the file. Ends when
its standard input closes.
"""

import json
import sys

TOOL = {
    "name": "echo",
    "description": "Says it again",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


def answer(request: dict) -> dict:
    params = request.get("params") or {}
    match request["method"]:
        case "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }
        case "tools/list":
            result = {"tools": [TOOL]}
        case "tools/call":
            text = params["arguments"].get("text", "")
            result = {"content": [{"type": "text", "text": f"again: {text}"}]}
        case "ping":
            result = {}
        case _:
            return {"error": {"code": -32601, "message": "there is no such method"}}
    return {"result": result}


with open(sys.argv[1], "a", buffering=1, encoding="utf-8") as kept:
    for line in sys.stdin:
        kept.write(line)
        said = json.loads(line)
        if "id" in said and "method" in said:
            print(json.dumps({"jsonrpc": "2.0", "id": said["id"]} | answer(said)), flush=True)
