"""Servers on standard input and output that do one thing each as real servers have done it: `stdio_server.py MODE`.

Only the standard library. Every mode has the tools below; what is special about it stands in the code.
"""

import base64
import json
import os
import struct
import subprocess
import sys
import time
import zlib

MODE = sys.argv[1]
OUT = sys.stdout.buffer


def raw(data):
    OUT.write(data)
    OUT.flush()


def say(message):
    raw(json.dumps(message).encode() + b"\n")


def log(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def result(ident, value):
    say({"jsonrpc": "2.0", "id": ident, "result": value})


def text(said):
    return {"content": [{"type": "text", "text": said}]}


TOOLS = "echo die long_line bad_utf8 wrong_id missing_id batch noise flood silent env grow ping_me ask_me roots_me steps".split()
GROWN = []
TOLD = set()

# What the documentation shows.
# A dot.
GIF = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
EXAMPLE = {
    "tools": [
        {
            "name": "add",
            "title": "Add a note",
            "description": "Keeps a note.",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            "annotations": {"readOnlyHint": False, "destructiveHint": False},
        },
        {"name": "list", "description": "All notes.", "annotations": {"readOnlyHint": True}},
    ],
    "notes": {
        "content": [
            {"type": "text", "text": "1 note, with a picture"},
            {"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/plain", "text": "buy milk"}},
            {
                "type": "image",
                "mimeType": "image/gif",
                "data": GIF,
            },
        ]
    },
    "answers": {
        "resources/list": {"resources": [{"uri": "note://1", "name": "first", "mimeType": "text/plain"}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "note://{number}", "name": "a note"}]},
        "resources/read": {"contents": [{"uri": "note://1", "mimeType": "text/plain", "text": "buy milk"}]},
        "prompts/list": {
            "prompts": [
                {
                    "name": "review",
                    "description": "Look over a note.",
                    "arguments": [{"name": "number", "required": True}],
                }
            ]
        },
        "completion/complete": {"completion": {"values": ["1", "12"], "total": 2, "hasMore": False}},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Look over note 1."}}]},
    },
}


def chart():
    """A picture of four colours, 64 by 32 pixels, the last quarter of it transparent."""
    rows = b""
    for y in range(32):
        left, right = (b"\xff\0\0\xff", b"\0\xff\0\xff") if y < 16 else (b"\0\0\xff\xff", b"\0\0\0\0")
        rows += b"\0" + left * 32 + right * 32

    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = part(b"IHDR", struct.pack(">IIBBBBB", 64, 32, 8, 6, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + head + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")
    return {"content": [{"type": "image", "mimeType": "image/png", "data": base64.b64encode(png).decode()}]}


def tools():
    if MODE == "chart":
        return [{"name": "chart", "description": "A chart.", "annotations": {"readOnlyHint": True}}]
    if MODE == "example":
        return EXAMPLE["tools"]
    if MODE.startswith("many-"):
        return [{"name": f"tool_{it}", "description": "One of many."} for it in range(int(MODE[5:]))]
    return [{"name": it} for it in TOOLS + GROWN]


def call(ident, name, params):
    if name == "echo":
        result(ident, text(json.dumps(params.get("arguments"))))
    elif MODE == "example" and name == "add" and not params["arguments"]["text"]:
        say({"jsonrpc": "2.0", "id": ident, "error": {"code": -32602, "message": "a note of nothing"}})
    elif MODE == "example" and name == "add":
        result(ident, text("kept: " + params["arguments"]["text"]))
    elif MODE == "example" and name == "list":
        result(ident, EXAMPLE["notes"])
    elif MODE == "chart" and name == "chart":
        result(ident, chart())
    elif name == "die":
        log("about to die")
        os._exit(7)
    elif name == "long_line":
        result(ident, text("x" * (10 << 20)))
    elif name == "bad_utf8":
        raw(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\xff\xfeb"}]}}\n' % ident)
    elif name == "wrong_id":
        result(99999, text("x"))
    elif name == "missing_id":
        say({"jsonrpc": "2.0", "result": text("x")})
    elif name == "batch":
        say([{"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": ident, "result": text("batched")}])
    elif name == "noise":
        raw(b"DEBUG: a line of no JSON\n\n{ broken\n[1, 2]\n")
        result(ident, text("through the noise"))
    elif name == "flood":
        for _ in range(3000):
            log("x" * 100)
        for step in range(1000):
            params = {"progressToken": params["_meta"]["progressToken"], "progress": step, "_meta": params["_meta"]}
            say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        log("the last line")
        result(ident, text("flooded"))
    elif name == "silent":
        log(f"silent {ident}")
    elif name == "env":
        result(ident, text(json.dumps(dict(os.environ))))
    elif name == "grow":
        GROWN.append(f"t{len(GROWN)}")
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        for uri in TOLD:
            say({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
        result(ident, text("grown"))
    elif name == "steps":
        # It says how far it is, and never gets there.
        params = {"progressToken": params["_meta"]["progressToken"], "progress": 3, "total": 10, "message": "step three"}
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "warning", "logger": "s", "data": "slow"}})
    elif name in ("ping_me", "ask_me", "roots_me"):
        method = {"ping_me": "ping", "ask_me": "elicitation/create", "roots_me": "roots/list"}[name]
        params = {"message": "who?", "requestedSchema": {"type": "object"}}
        say({"jsonrpc": "2.0", "id": "mine", "method": method, "params": params})
        answer = json.loads(sys.stdin.readline())
        assert answer["id"] == "mine", answer
        result(ident, text(json.dumps(answer.get("result", answer.get("error")))))
    else:
        say({"jsonrpc": "2.0", "id": ident, "error": {"code": -32602, "message": f"Unknown tool: {name}"}})


def main():
    if MODE == "dies_at_start":
        log("no such database")
        sys.exit(3)
    if MODE == "hangs":
        time.sleep(600)
    if MODE == "slow_start":
        time.sleep(4)
    if MODE == "stays":
        # Nobody gets rid of it by closing a pipe or asking nicely, nor of its child in a session of its own.
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        log(f"pids {os.getpid()} {child.pid}")
    for line in sys.stdin:
        message = json.loads(line)
        method, ident = message.get("method"), message.get("id")
        if ident is None:
            log(f"told {method} {json.dumps(message.get('params'))}")
            continue
        if method == "server/discover":
            if MODE == "dies_of_the_unknown":
                sys.exit(1)
            if MODE in ("modern", "slow_start"):
                capabilities = {"tools": {"listChanged": True}}
                result(ident, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
            else:
                say({"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": "Method not found"}})
        elif method == "initialize":
            if MODE == "repeats":
                said = f"no entry with {os.environ['API_TOKEN']} at {os.environ['LEVEL']}, {' '.join(sys.argv[2:])}"
                say({"jsonrpc": "2.0", "id": ident, "error": {"code": -32600, "message": said}})
                # Nobody wants the answer to anything any more, and these words are still read.
                time.sleep(0.1)
                log(said)
                continue
            if MODE in ("modern", "slow_start"):
                error = {"code": -32600, "message": "the initialize handshake is not accepted"}
                say({"jsonrpc": "2.0", "id": ident, "error": error})
                continue
            capabilities = {"tools": {"listChanged": True}}
            if MODE == "example":
                capabilities.update(resources={}, prompts={}, completions={})
            if MODE == "watched":
                capabilities.update(resources={"subscribe": True})
            info = {"name": MODE, "version": "1"}
            result(ident, {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
        elif method == "tools/list":
            result(ident, {"tools": tools()})
        elif method == "tools/call":
            call(ident, message["params"]["name"], message["params"])
        elif MODE == "watched" and method.startswith("resources/"):
            uri = message["params"]["uri"]
            log(f"{method} {uri}")
            if not uri.startswith("note://"):
                say({"jsonrpc": "2.0", "id": ident, "error": {"code": -32002, "message": f"no resource {uri}"}})
            elif method == "resources/read" and "chart" in uri:
                result(ident, {"contents": [{"uri": uri, "mimeType": "image/gif", "blob": GIF}]})
            elif method == "resources/read":
                said = f"version {len(GROWN)}" + " and on" * (2000 if "big" in uri else 0)
                result(ident, {"contents": [{"uri": uri, "text": said}]})
            else:
                (TOLD.add if method == "resources/subscribe" else TOLD.discard)(uri)
                result(ident, {})
        elif MODE == "example" and method in EXAMPLE["answers"]:
            result(ident, EXAMPLE["answers"][method])
        else:
            say({"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": "Method not found"}})
    if MODE == "stays":
        time.sleep(600)


main()
