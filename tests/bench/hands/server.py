"""The scripted model: a server on this machine that plays a script to whoever asks, in the dialect in which it is asked.

It counts what was sent, and can keep every request for somebody to look at.
"""

import gzip
import http.server
import json
import os
import threading

from dialects import dialect_of
from script import Reply, Request


class Server(http.server.ThreadingHTTPServer):
    """Serves one play at a time: that in `play`."""

    daemon_threads = True

    def __init__(self, keep=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.play = None
        self.keep = keep
        self.kept = 0
        self.strange = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def keep_request(self, body):
        if not self.keep:
            return
        self.kept += 1
        os.makedirs(self.keep, exist_ok=True)
        with open(os.path.join(self.keep, f"{self.kept:04}.json"), "wb") as file:
            file.write(body)


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a program."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments):
        """The table is what is printed."""

    def do_HEAD(self):
        self._send(200, "text/plain", b"")

    def do_GET(self):
        models = {"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []}
        self._send(200, "application/json", json.dumps(models).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        dialect = dialect_of(self.path)
        if self.path.split("?")[0].endswith("/count_tokens"):
            self._send(200, "application/json", json.dumps({"input_tokens": len(body) // 4}).encode())
            return
        if dialect is None or self.server.play is None:
            self.server.strange.append(self.path)
            self._send(404, "application/json", b'{"error":{"message":"there is no such thing here"}}')
            return
        self.server.keep_request(body)
        request = json.loads(body)
        play = self.server.play
        offered = dialect.offered(request)
        play.requests.append(Request(len(body), bool(offered)))
        # What a program asks besides, such as for a title, has no tools.
        reply = play.reply(offered, dialect.results(request)) if offered else Reply("A task.", [])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for event, data in dialect.stream(reply, len(body)):
                data = data if isinstance(data, str) else json.dumps(data)
                head = f"event: {event}\n" if event else ""
                self.wfile.write(f"{head}data: {data}\n\n".encode())
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            # The program has hung up; what it wants next it asks for.
            pass

    def _send(self, code, kind, body):
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
