"""A server with one tool, which runs a line of shell and says what that printed. Only the standard library.

It says on standard error that it began, and makes the file `began` in its directory if it may.
"""

import json
import subprocess
import sys

TOOLS = [{"name": "sh", "description": "Runs it.", "inputSchema": {"type": "object", "properties": {"line": {"type": "string"}}}}]


def answer(message):
    method, given = message["method"], message.get("params") or {}
    if method == "initialize":
        about = {"name": "shell", "version": "1"}
        return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        ran = subprocess.run(["sh", "-c", given["arguments"]["line"]], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        text = f"{ran.returncode} {ran.stdout}{ran.stderr}"
        return {"content": [{"type": "text", "text": text}]}
    return None


sys.stderr.write("it begins\n")
sys.stderr.flush()
try:
    open("began", "w").close()
except OSError:
    pass
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message)
    reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
    sys.stdout.flush()
