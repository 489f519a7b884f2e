"""Calls that their server goes on with by itself: what `http_server.py tasks` (2026-07-28) and `old_tasks` (2025-11-25) do.

A task works until GET /finish. The tools whose names say so do something that real servers have done or hostile ones may.
"""

import threading

LOCK = threading.Lock()
FINISHED = threading.Event()
TASKS = {}


def tool(name, support=None):
    said = {"name": name, "description": name, "inputSchema": {"type": "object"}}
    return {**said, "execution": {"taskSupport": support}} if support else said


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


def finish(handler):
    FINISHED.set()
    handler.answer(200)


def form(message):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def begin(name):
    with LOCK:
        ident = f"t{len(TASKS) + 1}"
        TASKS[ident] = {"tool": name, "polls": 0, "answers": {}}
    return ident


NAMES = ["long", "asks", "breaks", "wrong", "stops", "nameless", "drops", "lost", "nests", "prying", "picky", "sudden"]


def tasks(handler, message):
    """2026-07-28 with the extension; a call of any tool becomes a task, where the client takes one."""
    method, params = message["method"], message.get("params", {})
    able = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities", {})
    if method == "server/discover":
        return handler.result(
            {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "tasks", "version": "1"}},
            }
        )
    if method == "tools/list":
        return handler.result({"resultType": "complete", "tools": [tool(it) for it in NAMES]})
    if "io.modelcontextprotocol/tasks" not in able.get("extensions", {}):
        return handler.error(-32021, "Missing required client capability", 400)
    if method == "tools/call":
        name = params["name"]
        if name == "nameless":
            return handler.result({"resultType": "task", "status": "working"})
        said = {"resultType": "task", "taskId": begin(name), "status": "working", "ttlMs": None}
        if name == "sudden":
            said["status"] = "completed"
        return handler.result({**said, "statusMessage": "begun", "pollIntervalMs": 0})
    ident = params.get("taskId")
    if not method.startswith("tasks/") or handler.headers.get("Mcp-Name") != ident:
        return handler.error(-32601, f"Method not found: {method}", 404)
    with LOCK:
        task = TASKS.get(ident)
        if task is None:
            return handler.error(-32602, "Failed to retrieve task: Task not found")
        if method == "tasks/update" and task["tool"] == "picky":
            return handler.error(-32602, "not that name")
        if method == "tasks/update":
            task["answers"].update(params["inputResponses"])
            return handler.result({"resultType": "complete"})
        if method == "tasks/cancel":
            return handler.result({"resultType": "complete"})
        task["polls"] += 1
        polls, answers = task["polls"], dict(task["answers"])
    said = {"resultType": "complete", "taskId": ident, "status": "working", "pollIntervalMs": 1}
    done = {**said, "status": "completed", "result": text(f"done after {polls}")}
    match task["tool"]:
        case "long" if not FINISHED.is_set():
            return handler.result({**said, "statusMessage": "still at it"})
        case "asks" | "picky" if "who" not in answers:
            return handler.result({**said, "status": "input_required", "inputRequests": {"who": form("who?")}})
        case "asks":
            return handler.result({**done, "result": text(f"hello {answers['who']}")})
        case "breaks":
            error = {"code": -32603, "message": "API rate limit exceeded"}
            return handler.result({**said, "status": "failed", "error": error})
        case "wrong":
            return handler.result({**done, "result": text("no such city", isError=True)})
        case "stops":
            return handler.result({**said, "status": "cancelled", "statusMessage": "out of money"})
        case "drops" if polls < 3:
            handler.close_connection = True
            return None
        case "lost":
            return handler.error(-32602, "Failed to retrieve task: Task has expired")
        case "nests":
            return handler.result({**done, "result": {"resultType": "task", "taskId": "t99"}})
        case "prying":
            wanted = {f"k{polls}-{at}": form("and?") for at in range(16)}
            return handler.result({**said, "status": "input_required", "inputRequests": wanted})
    handler.result(done)


def old_tasks(handler, message):
    """2025-11-25 with its experimental tasks: `maybe` is called in either way, the others in no other."""
    method, params = message.get("method", ""), message.get("params", {})
    if "id" not in message:
        return handler.answer(202)
    if method == "initialize":
        requests = {"tools": {"call": {}}}
        return handler.initialize("2025-11-25", {"tools": {}, "tasks": {"cancel": {}, "requests": requests}})
    if method == "tools/list":
        required = [tool(it, "required") for it in ("research", "fails", "gone", "waits")]
        return handler.result({"tools": [*required, tool("maybe", "optional")]})
    if method == "tools/call":
        if "task" not in params:
            if params["name"] != "maybe":
                return handler.error(-32601, f"{params['name']} is called as a task")
            return handler.result(text("at once"))
        task = {"taskId": begin(params["name"]), "status": "working", "ttl": 60000, "pollInterval": 1}
        return handler.result({"task": task})
    with LOCK:
        task = TASKS.get(params.get("taskId"))
        if task is None:
            return handler.error(-32602, "Failed to retrieve task: Task not found")
        task["polls"] += method == "tasks/get"
        polls = task["polls"]
    if method == "tasks/get":
        early = {"fails": "failed", "gone": "completed", "waits": "input_required"}.get(task["tool"], "working")
        status = "completed" if polls > 2 else early
        return handler.result({"taskId": params["taskId"], "status": status, "statusMessage": f"step {polls}", "ttl": 60000})
    if method == "tasks/result" and task["tool"] == "fails":
        return handler.error(-32603, "no such city")
    if method == "tasks/result" and task["tool"] == "gone":
        return handler.error(-32603, "Task result was dropped")
    if method == "tasks/result" and polls > 2:
        return handler.result(text("all of it"))
    handler.error(-32601, f"Method not found: {method}")
