"""A server on standard input and output with prompts, resources and what belongs to them: `offering.py MODE`.

Only the standard library. `session` speaks 2025-11-25, `modern` 2026-07-28, `first` 2024-11-05, which has no word for
completions; `bare` is `session` without completions and without telling of changes; `hostile` completes with what no
terminal should show; `slow` never answers a completion. Its tool `asked` gives back what it was asked so far, `touch`
changes a resource, `grow` adds a resource and a prompt, `die` ends it.
"""

import json
import os
import sys

MODE = sys.argv[1]
STATED = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
ASKED = []
TOLD = set()
LISTENING = {}
COUNT = {"touched": 0, "grown": 0}
CITIES = ["Basel", "Berlin", "Bern", "two words"]
HOSTILE = ["\x1b[2Jclear", "B\nnext", "B\u202eidden", "B" * 5000, 7, None, "Bfine"]


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result(ident, value):
    if MODE == "modern":
        value = {"resultType": "complete", **value}
    say({"id": ident, "result": value})


def error(ident, code, said):
    say({"id": ident, "error": {"code": code, "message": said}})


def tell(method, params, wish, uri=None):
    """To whoever wanted to hear of it."""
    if MODE != "modern":
        if uri is None or uri in TOLD:
            say({"method": method, "params": params})
        return
    for ident, wanted in LISTENING.items():
        if wanted.get(wish) is True or (uri is not None and uri in wanted.get(wish, [])):
            say({"method": method, "params": {**params, "_meta": {SUBSCRIPTION: ident}}})


def capabilities():
    if MODE == "bare":
        return {"tools": {}, "prompts": {}, "resources": {}}
    told = {
        "tools": {},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "completions": {},
    }
    if MODE == "first":
        del told["completions"]
    return told


def resources():
    grown = [f"note://grown{it}" for it in range(COUNT["grown"])]
    return [{"uri": it, "name": it[7:], "mimeType": "text/plain"} for it in ["note://1", "note://2"] + grown]


def prompts():
    city = [{"name": "country", "description": "Where.", "required": False}, {"name": "city", "required": True}]
    grown = [{"name": f"grown{it}"} for it in range(COUNT["grown"])]
    return [{"name": "visit", "description": "Plan a visit.", "arguments": city}] + grown


def complete(ident, params):
    of, argument = params["ref"], params["argument"]
    if MODE == "slow":
        return
    if of.get("name", "visit") != "visit" or of.get("uri", "note://{number}") != "note://{number}":
        return error(ident, -32602, "there is no such thing")
    if MODE == "hostile":
        values = HOSTILE
    elif argument["name"] == "number":
        values = ["1", "12", "2", "a b"]
    elif argument["name"] == "country":
        values = ["Germany", "Switzerland"]
    elif params.get("context", {}).get("arguments", {}).get("country") == "Germany":
        values = ["Berlin"]
    else:
        values = CITIES
    found = [it for it in values if not isinstance(it, str) or MODE == "hostile" or it.startswith(argument["value"])]
    result(ident, {"completion": {"values": found, "total": len(found), "hasMore": False}})


def call(ident, name, arguments):
    if name == "asked":
        said = json.dumps(ASKED)
    elif name == "touch":
        COUNT["touched"] += 1
        uri = arguments["uri"]
        tell("notifications/resources/updated", {"uri": uri}, "resourceSubscriptions", uri)
        said = "touched"
    elif name == "grow":
        COUNT["grown"] += 1
        tell("notifications/resources/list_changed", {}, "resourcesListChanged")
        tell("notifications/prompts/list_changed", {}, "promptsListChanged")
        said = "grown"
    else:
        os._exit(7)
    result(ident, {"content": [{"type": "text", "text": said}]})


def answer(ident, method, params):
    if method == "server/discover" and MODE == "modern":
        result(ident, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities()})
    elif method == "initialize" and MODE != "modern":
        version = "2024-11-05" if MODE == "first" else "2025-11-25"
        info = {"name": MODE, "version": "1"}
        result(ident, {"protocolVersion": version, "capabilities": capabilities(), "serverInfo": info})
    elif method == "tools/list":
        result(ident, {"tools": [{"name": it, "inputSchema": {"type": "object"}} for it in ("asked", "touch", "grow", "die")]})
    elif method == "tools/call":
        call(ident, params["name"], params.get("arguments", {}))
    elif method == "resources/list":
        result(ident, {"resources": resources()})
    elif method == "resources/templates/list":
        result(ident, {"resourceTemplates": [{"uriTemplate": "note://{number}", "name": "a note"}]})
    elif method == "resources/read" and params["uri"].startswith("note://"):
        text = f"{params['uri']} version {COUNT['touched']}"
        result(ident, {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": text}]})
    elif method == "resources/read":
        error(ident, -32002, "there is no such resource")
    elif method == "resources/subscribe" and MODE != "bare" and params["uri"].startswith("note://"):
        TOLD.add(params["uri"])
        result(ident, {})
    elif method == "resources/unsubscribe":
        TOLD.discard(params["uri"])
        result(ident, {})
    elif method == "prompts/list":
        result(ident, {"prompts": prompts()})
    elif method == "prompts/get":
        said = {"role": "user", "content": {"type": "text", "text": json.dumps(params.get("arguments"))}}
        result(ident, {"messages": [said]})
    elif method == "completion/complete":
        complete(ident, params)
    elif method == "subscriptions/listen" and MODE == "modern":
        LISTENING[ident] = params["notifications"]
        taken = {"notifications": params["notifications"], "_meta": {SUBSCRIPTION: ident}}
        say({"method": "notifications/subscriptions/acknowledged", "params": taken})
    else:
        error(ident, -32601, "Method not found")


for line in sys.stdin:
    message = json.loads(line)
    method, ident, params = message.get("method"), message.get("id"), message.get("params") or {}
    if ident is None:
        if method == "notifications/cancelled":
            LISTENING.pop(params.get("requestId"), None)
            ASKED.append([method, params.get("requestId")])
        continue
    if method.split("/")[0] in ("completion", "resources", "subscriptions"):
        ASKED.append([method, params])
    answer(ident, method, params)
