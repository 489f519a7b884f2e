"""A server of chat completions that writes down what it is asked, for what stands in front of it: `recorder.py PORT FILE`.

It answers by the last message: a call where the question says `call TOOL ARGUMENTS`, an error where it says `fail STATUS`, what
it sees of a picture, and else `You said: …`. FILE has one line of JSON for each request, with its headers.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {
    "prompt_tokens": 120, "completion_tokens": 7, "total_tokens": 127, "prompt_tokens_details": {"cached_tokens": 64},
}


def text_of(content):
    if isinstance(content, list):
        return " ".join(it.get("text", "") for it in content)
    return content or ""


def pictures_of(content):
    parts = content if isinstance(content, list) else []
    return [it for it in parts if it.get("type") in ("image_url", "file")]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.whole(200, {"object": "list", "data": [{"id": "recorded", "object": "model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open(sys.argv[2], "a") as file:
            file.write(json.dumps({"path": self.path, "headers": dict(self.headers), "body": body}) + "\n")
        messages = body["messages"]
        last = messages[-1]
        said = text_of(last["content"])
        failing = re.search(r"fail (\d+)", said)
        calling = re.search(r"call (\w+) (\{.*?\})", said)
        if failing and last["role"] == "user":
            code = int(failing[1])
            return self.whole(code, {"error": {"message": f"refused with {code}", "type": "made_up", "param": None, "code": None}})
        if last["role"] == "tool":
            return self.answer(body, f"The tool said: {said[:60]}")
        if calling:
            call = {"id": "call_recorded", "type": "function", "function": {"name": calling[1], "arguments": calling[2]}}
            return self.answer(body, None, [call])
        kinds = sorted(it["type"] for it in pictures_of(last["content"]))
        return self.answer(body, f"I see {', '.join(kinds)}." if kinds else f"You said: {said}")

    def answer(self, body, text, calls=None):
        finish = "tool_calls" if calls else "stop"
        if not body.get("stream"):
            message = {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return self.whole(200, self.head("chat.completion") | {"choices": [choice], "usage": USAGE})
        deltas = [{"role": "assistant", "content": ""}]
        deltas += [{"content": it} for it in re.findall(r"\S+\s*", text or "")]
        deltas += [{"tool_calls": [it | {"index": at}]} for at, it in enumerate(calls or [])]
        chunks = [{"choices": [{"index": 0, "delta": it, "finish_reason": None}]} for it in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({"choices": [], "usage": USAGE})
        events = [json.dumps(self.head("chat.completion.chunk") | it) for it in chunks] + ["[DONE]"]
        self.send(200, "text/event-stream", "".join(f"data: {it}\n\n" for it in events).encode())

    def head(self, kind):
        return {"id": "chatcmpl-recorded", "object": kind, "created": 0, "model": "recorded"}

    def whole(self, code, value):
        self.send(code, "application/json", json.dumps(value).encode())

    def send(self, code, kind, body):
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
