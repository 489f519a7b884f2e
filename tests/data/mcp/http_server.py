"""Servers over HTTP that do one thing each as real servers have done it. `http_server.py MODE` prints its port.

Only the standard library. What a mode does stands beside its name in `MODES`.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import task_modes

MODE = sys.argv[1]
STATE = {"sessions": set(), "calls": 0, "next": 1, "streams": [], "log": []}
LOCK = threading.Lock()
ELSEWHERE = threading.Event()


def tool(name, **more):
    return {"name": name, "description": name, "inputSchema": {"type": "object"}, **more}


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", kind="application/json", headers=()):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        if body:
            self.send_header("Content-Type", kind)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, headers=()):
        """Begins a stream of events that the end of the connection ends."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def event(self, data, kind=None, ident=None):
        lines = []
        if kind:
            lines.append(f"event: {kind}")
        if ident:
            lines.append(f"id: {ident}")
        lines.append("data: " + (data if isinstance(data, str) else json.dumps(data)))
        self.wfile.write(("\n".join(lines) + "\n\n").encode())
        self.wfile.flush()

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        message = json.loads(self.rfile.read(length))
        self.message = message
        with LOCK:
            STATE["log"].append([message.get("method"), dict(self.headers), message.get("params")])
        MODES[MODE](self, message)

    def do_GET(self):
        if self.path == "/log":
            with LOCK:
                return self.answer(200, STATE["log"])
        on_get = GETS.get(MODE)
        if on_get is None:
            return self.answer(405)
        on_get(self)

    def do_DELETE(self):
        with LOCK:
            STATE["log"].append(["DELETE", dict(self.headers), None])
            STATE["sessions"].discard(self.headers.get("Mcp-Session-Id"))
        self.answer(200)

    def result(self, result, headers=()):
        body = {"jsonrpc": "2.0", "id": self.message.get("id"), "result": result}
        self.answer(200, body, headers=headers)

    def error(self, code, said, status=200, **more):
        error = {"code": code, "message": said, **more}
        body = {"jsonrpc": "2.0", "id": self.message.get("id"), "error": error}
        self.answer(status, body)

    def initialize(self, version="2025-03-26", capabilities=None, headers=()):
        self.result(
            {
                "protocolVersion": version,
                "capabilities": capabilities or {"tools": {"listChanged": False}},
                "serverInfo": {"name": MODE, "version": "1"},
            },
            headers,
        )


def session_like(handler, message, tools, call, **settings):
    """The usual server of a revision with `initialize`."""
    method = message.get("method", "")
    if "id" not in message:
        handler.answer(202)
    elif method == "initialize":
        handler.initialize(**settings)
    elif method == "tools/list":
        handler.result({"tools": tools})
    elif method == "tools/call":
        call(message["params"]["name"], message["params"].get("arguments", {}))
    elif method == "ping":
        handler.result({})
    else:
        handler.error(-32601, f"Method not found: {method}")


def minimal(handler, message):
    """Pinned to its revision, a bearer token, 401 with a body that is no JSON-RPC, 202 without a body."""
    if handler.headers.get("Authorization") != "Bearer sesame":
        return handler.answer(401, {"error": "unauthorized"})
    session_like(
        handler,
        message,
        [tool("echo"), tool("fail")],
        lambda name, arguments: handler.result(
            text("Error: no such file") if name == "fail" else text(arguments.get("text", ""))
        )
        if name in ("echo", "fail")
        else handler.error(-32601, f"Tool not found: {name}"),
    )


def repeats(handler, message):
    """Refuses, and repeats the secrets that came along."""
    said = ", ".join(handler.headers.get(it, "") for it in ("Authorization", "X-Api-Key", "X-Project"))
    handler.error(-32600, f"no entry with {said}")


def minimal_get(handler):
    """Announces the endpoint for questions and closes."""
    handler.stream()
    handler.event("/mcp", "endpoint")


def odd(handler, message):
    """One broken tool among good ones; results of every odd shape."""
    results = {
        "json_block": {"content": [{"type": "json", "json": {"a": 1}}]},
        "empty": {},
        "null": None,
        "is_error": text("it went wrong", isError=True),
    }
    tools = [tool(it) for it in results]
    tools[1:1] = [{"name": "no_schema"}, {"name": 7}, tool("null_schema", inputSchema=None)]
    tools += [tool("odd_hint", annotations={"readOnlyHint": "yes"}), "no object", {"inputSchema": {}}]
    session_like(handler, message, tools, lambda name, _: handler.result(results.get(name)))


def ids(handler, message):
    """Answers whose ids are wrong or missing, and bodies that are no answers."""
    ident = message.get("id")

    def call(name, _):
        if name == "wrong_id":
            handler.answer(200, {"jsonrpc": "2.0", "id": 99999, "result": text("x")})
        elif name == "missing_id":
            handler.answer(200, {"jsonrpc": "2.0", "result": text("x")})
        elif name == "string_id":
            handler.answer(200, {"jsonrpc": "2.0", "id": str(ident), "result": text("fine")})
        elif name == "error_without_id":
            handler.answer(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "bad"}})
        elif name == "html":
            handler.answer(200, b"<html>hello</html>", "text/html")
        elif name == "nothing":
            handler.answer(200)
        elif name == "accepted":
            handler.answer(202)
        elif name == "teapot":
            handler.answer(418, b"I am a teapot with sesame", "text/plain")
        elif name == "cut":
            handler.stream()
            handler.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "hi"}})
        elif name == "reset":
            handler.close_connection = True
            handler.connection.shutdown(2)
        elif name == "batch":
            batch = [{"jsonrpc": "2.0", "id": 5, "result": {}}, 7, {"jsonrpc": "2.0", "id": ident, "result": text("in a batch")}]
            handler.answer(200, batch[1:])
        elif name == "huge":
            handler.result(text("x" * (17 << 20)))
        elif name == "redirect":
            handler.answer(307, headers=[("Location", "http://127.0.0.1:1/")])
        else:
            handler.error(-32602, f"Unknown tool: {name}")

    names = "wrong_id missing_id string_id error_without_id html nothing accepted teapot cut reset batch huge redirect"
    session_like(handler, message, [tool(it) for it in (names + " unknown").split()], call)


def hang(_handler, _message):
    """Takes every question and says nothing."""
    time.sleep(600)


def silent_discover(handler, message):
    """Does not answer what it does not know."""
    if message.get("method") == "server/discover":
        time.sleep(600)
    session_like(handler, message, [tool("echo")], lambda *_: handler.result(text("here")))


def discover_500(handler, message):
    if message.get("method") == "server/discover":
        return handler.answer(500, b"Traceback (most recent call last)", "text/plain")
    session_like(handler, message, [tool("echo")], lambda *_: handler.result(text("here")))


def discover_empty(handler, message):
    """Answers every question that it does not know with an empty result."""
    if message.get("method") == "server/discover":
        return handler.result({})
    session_like(handler, message, [tool("echo")], lambda *_: handler.result(text("here")))


def pages(handler, message):
    """Its list never ends."""
    if message.get("method") == "tools/list":
        with LOCK:
            STATE["next"] += 1
            number = STATE["next"]
        return handler.result({"tools": [tool(f"t{number}")], "nextCursor": str(number)})
    session_like(handler, message, [], None)


def forgetful(status, said):
    """Forgets its sessions whenever the tool `forget` was called."""

    def mode(handler, message):
        ident = handler.headers.get("Mcp-Session-Id")
        if message.get("method") == "initialize":
            with LOCK:
                STATE["next"] += 1
                ident = f"session-{STATE['next']}"
                STATE["sessions"].add(ident)
            return handler.initialize("2025-06-18", headers=[("Mcp-Session-Id", ident)])
        if message.get("method") == "server/discover":
            return handler.error(-32000, "Bad Request: Server not initialized", 400)
        if ident not in STATE["sessions"]:
            body = {"jsonrpc": "2.0", "error": {"code": -32000, "message": said}, "id": None}
            return handler.answer(status, body)

        def call(name, _):
            if name == "forget":
                STATE["sessions"].clear()
            handler.result(text(ident))

        session_like(handler, message, [tool("forget"), tool("which")], call)

    return mode


def turns(handler, message):
    """Describes its tools in other words in each session. A call in its first session makes it forget that, and is refused;
    but `busy` runs until a call has come in another one, and `crash` ran before it failed."""
    ident = handler.headers.get("Mcp-Session-Id")
    method = message.get("method")
    if method == "initialize":
        with LOCK:
            STATE["next"] += 1
            STATE["sessions"] = {f"session-{STATE['next']}"}
        return handler.initialize("2025-06-18", headers=[("Mcp-Session-Id", *STATE["sessions"])])
    if method == "server/discover":
        return handler.error(-32000, "Bad Request: Server not initialized", 400)
    if ident not in STATE["sessions"]:
        return handler.error(-32001, "Session not found", 404)

    def call(name, _):
        if name == "crash":
            return handler.error(-32000, "the browser session crashed after paying", 400)
        if name == "busy":
            ELSEWHERE.wait(60)
        elif ident == "session-2":
            STATE["sessions"] = set()
            return handler.error(-32001, "Session not found", 404)
        ELSEWHERE.set()
        handler.result(text(f"{name} in {ident}"))

    tools = [tool(it) for it in ("busy", "crash", "same")] + [tool("look", description=f"looks in {ident}")]
    if ident == "session-2":
        tools.append(tool("first"))
    session_like(handler, message, tools, call)


def polls(handler, message):
    """Answers no call, and closes each stream at once, to be asked for the rest."""

    def call(*_):
        handler.stream()
        handler.wfile.write(b"id: 0\nretry: 0\ndata: \n\n")

    session_like(handler, message, [tool("poll")], call)


def polls_get(handler):
    with LOCK:
        STATE["calls"] += 1
        STATE["log"].append(["GET", dict(handler.headers), None])
    handler.stream()
    handler.wfile.write(b"id: %d\nretry: 0\ndata: \n\n" % STATE["calls"])


def forgetful_get(handler):
    """A stream that stays open and says nothing."""
    handler.stream()
    time.sleep(600)


def progress(handler, message):
    """A slow tool that tells how far it is, one that says nothing for long, and one that asks for its input."""

    def call(name, arguments):
        ident = message["id"]
        token = message["params"]["_meta"]["progressToken"]
        handler.stream()
        if name == "slow":
            for step in range(1, 5):
                params = {"progressToken": token, "progress": step, "total": 4, "message": f"step {step}"}
                handler.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                log = {"level": "info", "logger": "slow", "data": f"did {step}"}
                handler.event({"jsonrpc": "2.0", "method": "notifications/message", "params": log})
                time.sleep(0.4)
        elif name == "silent":
            time.sleep(600)
        handler.event({"jsonrpc": "2.0", "id": ident, "result": text("done")})

    if message.get("method") == "logging/setLevel":
        return handler.result({})
    able = {"tools": {}, "logging": {}}
    session_like(handler, message, [tool("slow"), tool("silent")], call, version="2025-11-25", capabilities=able)


def changing(handler, message):
    """Gets one tool more with each call, and says so on the stream beside the questions."""
    with LOCK:
        count = STATE["calls"]

    def call(name, _):
        with LOCK:
            STATE["calls"] += 1
            streams = list(STATE["streams"])
        for stream in streams:
            stream.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        handler.result(text("more"))

    session_like(
        handler,
        message,
        [tool("more")] + [tool(f"t{it}") for it in range(count)],
        call,
        version="2025-06-18",
        capabilities={"tools": {"listChanged": True}},
        headers=[("Mcp-Session-Id", "only")],
    )


def changing_get(handler):
    with LOCK:
        handler.stream()
        handler.event("", ident="1")
        STATE["streams"].append(handler)
    time.sleep(600)


def old(handler, message):
    """HTTP+SSE of 2024-11-05: answers come on the stream."""
    if handler.path != "/messages?id=7":
        return handler.answer(405)
    reply = {}
    handler.answer = lambda status, body=b"", **_: reply.update(body=body)
    session_like(
        handler, message, [tool("echo")], lambda *_: handler.result(text("on the stream")), version="2024-11-05"
    )
    del handler.answer
    handler.answer(202)
    if reply.get("body"):
        STATE["streams"][-1].event(reply["body"], "message")


def old_get(handler):
    handler.stream()
    handler.event("/messages?id=7", "endpoint")
    STATE["streams"].append(handler)
    time.sleep(600)


def modern(handler, message):
    """2026-07-28: no session, everything in each request; `ask` wants to know something first."""
    method = message["method"]
    meta = message.get("params", {}).get("_meta", {})
    version = meta.get("io.modelcontextprotocol/protocolVersion")
    if version != "2026-07-28" or handler.headers.get("MCP-Protocol-Version") != version:
        return handler.error(-32022, "Unsupported protocol version", 400, data={"supported": ["2026-07-28"]})
    if handler.headers.get("Mcp-Method") != method:
        return handler.error(-32020, "header mismatch", 400)
    if method == "server/discover":
        return handler.result(
            {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "2"}},
                "ttlMs": 0,
                "cacheScope": "private",
            }
        )
    if method == "tools/list":
        region = {"type": "string", "x-mcp-header": "Region"}
        bad = {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}
        good = {"type": "object", "properties": {"region": region}}
        with LOCK:
            extra = [tool(f"t{it}") for it in range(STATE["calls"])]
        tools = [tool("where", inputSchema=good), tool("bad", inputSchema=bad), tool("ask"), tool("grow"), tool("task"), tool("sign")]
        return handler.result({"resultType": "complete", "tools": tools + extra})
    if method == "subscriptions/listen":
        handler.stream()
        wanted = message["params"]["notifications"]
        acknowledged = {"method": "notifications/subscriptions/acknowledged", "params": {"notifications": wanted}}
        with LOCK:
            STATE["streams"].append((handler, wanted))
        handler.event({"jsonrpc": "2.0", **acknowledged})
        time.sleep(600)
    if method == "resources/read":
        uri = message["params"]["uri"]
        with LOCK:
            said = "x" * (9 << 20) if uri == "note://huge" else f"version {STATE['calls']}"
        lives = {"ttlMs": 600000} if uri.endswith("/long") else {}
        return handler.result({"resultType": "complete", "contents": [{"uri": uri, "text": said}], **lives})
    if method == "tools/call":
        params = message["params"]
        name = params["name"]
        if handler.headers.get("Mcp-Name") != name:
            return handler.error(-32020, "header mismatch", 400)
        if name == "where":
            return handler.result(text(handler.headers.get("Mcp-Param-Region", "no header")))
        if name == "sign":
            with LOCK:
                STATE["calls"] += 1
                first = STATE["calls"] == 1
            page = {"mode": "url", "elicitationId": "e1", "url": "https://example.com/sign", "message": "sign in"}
            if first:
                return handler.error(-32042, "sign in first", data={"elicitations": [page]})
            return handler.result(text("signed in"))
        if name == "task":
            return handler.result({"resultType": "task", "task": {}})
        if name == "grow":
            with LOCK:
                STATE["calls"] += 1
                streams = list(STATE["streams"])
            for stream, wanted in streams:
                told = [("tools/list_changed", {})]
                told += [("resources/updated", {"uri": it}) for it in wanted.get("resourceSubscriptions", [])]
                for what, params in told:
                    try:
                        stream.event({"jsonrpc": "2.0", "method": "notifications/" + what, "params": params})
                    except OSError:
                        break  # It was called off.
            return handler.result(text("grown"))
        if name == "ask":
            if "inputResponses" in params:
                return handler.result(text(json.dumps([params["inputResponses"], params.get("requestState")])))
            form = {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object"}}}
            return handler.result(
                {"resultType": "input_required", "inputRequests": {"q": form}, "requestState": "st\u00e4te"}
            )
    handler.error(-32601, f"Method not found: {method}", 404)


def lapses(handler, message):
    """As `modern`, but it tells of no change: its list holds for a moment, and is a tool longer each time."""
    if message["method"] == "subscriptions/listen":
        return handler.error(-32601, "Method not found", 404)
    if message["method"] == "tools/list":
        with LOCK:
            STATE["calls"] += 1
            tools = [tool(f"t{it}") for it in range(STATE["calls"])]
        return handler.result({"resultType": "complete", "tools": tools, "ttlMs": 1})
    return modern(handler, message)


def late_discover(handler, message):
    """As `modern`, and so slow that it says what it speaks only after it has refused to be asked the older way."""
    if message["method"] == "initialize":
        handler.error(-32000, "Missing MCP-Protocol-Version header", 400)
        return ELSEWHERE.set()
    if message["method"] == "server/discover":
        ELSEWHERE.wait(60)
    return modern(handler, message)


MODES = {
    "lapses": lapses,
    "late_discover": late_discover,
    "minimal": minimal,
    "repeats": repeats,
    "odd": odd,
    "ids": ids,
    "hang": hang,
    "silent_discover": silent_discover,
    "discover_500": discover_500,
    "discover_empty": discover_empty,
    "pages": pages,
    "polls": polls,
    "turns": turns,
    "forgets_404": forgetful(404, "Session not found"),
    "forgets_400": forgetful(400, "Bad Request: No valid session ID provided"),
    "progress": progress,
    "changing": changing,
    "old": old,
    "modern": modern,
    "old_tasks": task_modes.old_tasks,
    "tasks": task_modes.tasks,
}
GETS = {
    "minimal": minimal_get,
    "polls": polls_get,
    "turns": forgetful_get,
    "forgets_404": forgetful_get,
    "forgets_400": forgetful_get,
    "changing": changing_get,
    "old": old_get,
    "tasks": task_modes.finish,
}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
