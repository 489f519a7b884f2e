"""A server that asks people whatever its caller tells it to ask: `forms.py`.

Only the standard library. `ask` sends one request for each member of its argument `asks`, of its argument `method` or
elicitation/create, and returns what came back as JSON. `leave` asks and returns at once. `take_back` asks, and takes the question back when the file of its
argument `when` is there. `die` asks, and dies then.
"""

import json
import os
import sys
import threading
import time

LOCK = threading.Lock()
ANYTHING = {"type": "object"}
# Our questions that have no answer yet: whose call they belong to, and where the answer goes in it.
ASKED = {}
OWED = {}


def say(message):
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def result(ident, text):
    say({"jsonrpc": "2.0", "id": ident, "result": {"content": [{"type": "text", "text": text}]}})


def when(file, then):
    while not os.path.exists(file):
        time.sleep(0.02)
    then()


def call(ident, name, arguments):
    asks = arguments["asks"]
    method = arguments.get("method", "elicitation/create")
    # Only `ask` tells what it was told.
    OWED[ident] = [None] * len(asks) if name == "ask" else None
    for place, params in enumerate(asks):
        ours = f"{ident}-{place}"
        ASKED[ours] = (ident, place)
        say({"jsonrpc": "2.0", "id": ours, "method": method, "params": params})
    if name == "leave":
        result(ident, "left")
    elif name == "take_back":

        def take_back():
            say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": f"{ident}-0"}})
            result(ident, "taken back")

        threading.Thread(target=when, args=(arguments["when"], take_back), daemon=True).start()
    elif name == "die":
        threading.Thread(target=when, args=(arguments["when"], lambda: os._exit(1)), daemon=True).start()
    elif not asks:
        result(ident, "[]")


def answered(message):
    ident, place = ASKED.pop(message["id"])
    answers = OWED[ident]
    if answers is None:
        return
    answers[place] = message.get("result", message.get("error"))
    # What was typed stays out of it.
    sys.stderr.write("answered: %s\n" % answers[place].get("action"))
    sys.stderr.flush()
    if all(it is not None for it in answers):
        result(ident, json.dumps(answers))


for line in sys.stdin:
    message = json.loads(line)
    ident, method = message.get("id"), message.get("method")
    if method is None:
        answered(message)
    elif ident is None:
        continue
    elif method == "initialize":
        info = {"name": "forms", "version": "1"}
        said = json.dumps(message["params"]["capabilities"])
        value = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info, "instructions": said}
        say({"jsonrpc": "2.0", "id": ident, "result": value})
    elif method == "tools/list":
        names = ["ask", "leave", "take_back", "die"]
        say({"jsonrpc": "2.0", "id": ident, "result": {"tools": [{"name": it, "inputSchema": ANYTHING} for it in names]}})
    elif method == "tools/call":
        call(ident, message["params"]["name"], message["params"]["arguments"])
    else:
        say({"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": "Method not found"}})
