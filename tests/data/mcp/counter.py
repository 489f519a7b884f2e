"""A server whose tool leaves a mark in a file, so that one can count how often it ran: `counter.py FILE`.

Only the standard library. While FILE.new is there, the tool `look` is described in other words. While FILE.hold is there, it
says nothing at its start. While FILE.odd is there, some of its tools are not as tools should be.
"""

import json
import os
import sys
import time

FILE = sys.argv[1]


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tools():
    words = "Looks closer." if os.path.exists(FILE + ".new") else "Looks."
    anything = {"type": "object"}
    odd = []
    if os.path.exists(FILE + ".odd"):
        deep = {}
        for _ in range(400):
            deep = {"properties": {"a": deep}}
        odd = [
            {"name": name, "inputSchema": anything}
            for name in ["read.file", "*", "../x", "a\u200bb"]
        ] + [
            {"name": "deep", "inputSchema": deep},
            {"name": "hides", "description": "Tells\u202e all\u001b[8m\U000e0041.", "inputSchema": anything},
            {"name": "hidden", "inputSchema": {"type": "object", "properties": {"a\u200bb": {}}}},
        ]
    return odd + [
        {"name": "count", "description": "Counts.", "inputSchema": anything},
        {"name": "look", "description": words, "inputSchema": anything, "annotations": {"readOnlyHint": True}},
        {"name": "long", "description": "Says much.", "inputSchema": anything, "annotations": {"readOnlyHint": True}},
        {"name": "fail", "description": "Fails.", "inputSchema": anything, "annotations": {"readOnlyHint": True}},
        {"name": "die", "description": "Ends the server.", "inputSchema": anything},
        {"name": "echo", "description": "Says its arguments.", "inputSchema": anything, "annotations": {"readOnlyHint": True}},
        {"name": "slow", "description": "Takes its time.", "inputSchema": anything},
    ]


def call(name, arguments):
    if name in ("count", "slow"):
        with open(FILE, "a") as marks:
            marks.write(name + "\n")
    if name == "die":
        os._exit(1)
    if name == "slow":
        time.sleep(60)
    if name == "fail":
        return {"content": [{"type": "text", "text": "it did not work"}], "isError": True}
    if name == "echo":
        return {"content": [{"type": "text", "text": json.dumps(arguments)}]}
    text = "".join("line %d\n" % n for n in range(20000)) if name == "long" else name + " done"
    return {"content": [{"type": "text", "text": text}]}


while os.path.exists(FILE + ".hold"):
    time.sleep(0.02)
for line in sys.stdin:
    message = json.loads(line)
    ident, method = message.get("id"), message.get("method")
    if ident is None:
        continue
    if method == "initialize":
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "counter", "version": "1"}}
        say({"jsonrpc": "2.0", "id": ident, "result": about})
    elif method == "tools/list":
        say({"jsonrpc": "2.0", "id": ident, "result": {"tools": tools()}})
    elif method == "tools/call":
        say({"jsonrpc": "2.0", "id": ident, "result": call(message["params"]["name"], message["params"].get("arguments"))})
    elif method == "ping":
        say({"jsonrpc": "2.0", "id": ident, "result": {}})
    else:
        say({"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": "no such method"}})
