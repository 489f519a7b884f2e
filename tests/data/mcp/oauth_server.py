"""An MCP server that wants a sign-in, and its authorization server, in one process: `oauth_server.py`.

Only the standard library. It prints its port. Refresh tokens are good once: a second use ends all that came of the first.
`POST /knobs` changes how it behaves (see KNOBS); `GET /seen` tells what it was asked and what it gave, tokens among it.
"""

import base64
import hashlib
import json
import secrets
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KNOBS = {
    "expires_in": 3600,
    # What the token endpoint says to a refresh: "ok", "invalid_grant", "busy", "page".
    "refresh": "ok",
    # Of the metadata and of the answer to the browser: "right", "wrong", "none".
    "issuer": "right",
    "iss": "right",
    "pkce": True,
    # The browser is sent back with an error.
    "deny": False,
    "resource": "right",
    "registration": True,
    # How the metadata comes: "right", "huge", "elsewhere", "page", "inside".
    "metadata": "right",
    # False: as before there was metadata of resources (2025-03-26).
    "resource_metadata": True,
}
LOCK = threading.Lock()
SEEN = {
    "asked": [],
    "access": {},
    "refresh": {},
    "reused": 0,
    "revoked": [],
    "registered": 0,
    "calls": 0,
    "secrets": [],
}
CODES = {}
TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "description": f"Does {name}."}
    for name in ["look", "write"]
]


def new(kind):
    made = f"{kind}-{secrets.token_urlsafe(24)}"
    SEEN["secrets"].append(made)
    return made


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length") or 0)).decode()

    def reply(self, status, value=None, headers=(), kind="application/json"):
        text = (value if isinstance(value, str) else json.dumps(value)).encode() if value is not None else b""
        self.send_response(status)
        for name, content in headers:
            self.send_header(name, content)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        with LOCK:
            self.get()

    def do_POST(self):
        body = self.body()
        with LOCK:
            self.post(body)

    def do_DELETE(self):
        self.reply(405)

    def get(self):
        url = urllib.parse.urlsplit(self.path)
        SEEN["asked"].append(f"GET {url.path}")
        if url.path == "/seen":
            SEEN["asked"].pop()
            self.reply(200, SEEN)
        elif url.path == "/.well-known/oauth-protected-resource/mcp" and KNOBS["resource_metadata"]:
            resource = "/mcp" if KNOBS["resource"] == "right" else "/other"
            self.reply(200, {
                "resource": self.origin + resource,
                "authorization_servers": [self.origin],
                "scopes_supported": ["files:read"],
            })
        elif url.path == "/.well-known/oauth-authorization-server":
            said = self.metadata()
            if KNOBS["metadata"] == "huge":
                self.reply(200, said | {"padding": "x" * (1 << 20)})
            elif KNOBS["metadata"] == "elsewhere":
                self.reply(302, headers=[("location", self.origin + "/seen")])
            elif KNOBS["metadata"] == "page":
                self.reply(200, "<html>hello</html>", kind="text/html")
            elif KNOBS["metadata"] == "inside":
                self.reply(200, said | {"token_endpoint": "http://10.0.0.1/token"})
            else:
                self.reply(200, said)
        elif url.path == "/authorize":
            self.authorize(dict(urllib.parse.parse_qsl(url.query)))
        elif url.path == "/mcp":
            if self.signed_in() is not None:
                self.reply(405)
        else:
            self.reply(404, {"error": "not found"})

    def metadata(self):
        issuer = self.origin if KNOBS["issuer"] == "right" else "https://evil.example"
        return {
            "issuer": issuer,
            "authorization_endpoint": self.origin + "/authorize",
            "token_endpoint": self.origin + "/token",
            "revocation_endpoint": self.origin + "/revoke",
            **({"registration_endpoint": self.origin + "/register"} if KNOBS["registration"] else {}),
            "code_challenge_methods_supported": ["S256"] if KNOBS["pkce"] else ["plain"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }

    def authorize(self, asked):
        back = {"state": asked.get("state", "")}
        if KNOBS["deny"]:
            back |= {"error": "access_denied", "error_description": "no <b>thanks</b>"}
        else:
            code = new("code")
            CODES[code] = asked
            back |= {"code": code}
        if KNOBS["iss"] != "none":
            back |= {"iss": self.origin if KNOBS["iss"] == "right" else "https://evil.example"}
        where = asked["redirect_uri"] + "?" + urllib.parse.urlencode(back)
        self.reply(302, headers=[("location", where)])

    def post(self, body):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/knobs":
            KNOBS.update(json.loads(body))
            if json.loads(body).get("expire"):
                SEEN["access"].clear()
            self.reply(200, {})
            return
        if path == "/mcp":
            self.mcp(json.loads(body))
            return
        SEEN["asked"].append(f"POST {path}")
        if path == "/register":
            SEEN["registered"] += 1
            self.reply(201, json.loads(body) | {"client_id": f"client-{SEEN['registered']}"})
        elif path == "/token":
            self.token(dict(urllib.parse.parse_qsl(body)))
        elif path == "/revoke":
            token = dict(urllib.parse.parse_qsl(body))["token"]
            SEEN["revoked"].append(token)
            SEEN["access"].pop(token, None)
            SEEN["refresh"].pop(token, None)
            self.reply(200, {})
        else:
            self.reply(404, {"error": "not found"})

    def token(self, form):
        refused = lambda error: self.reply(400, {"error": error, "error_description": "so it is"})
        if form.get("resource") != self.origin + "/mcp":
            return refused("invalid_target")
        if form["grant_type"] == "authorization_code":
            asked = CODES.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            good = asked and asked["code_challenge"] == challenge and asked["redirect_uri"] == form["redirect_uri"]
            if not good or asked["client_id"] != form.get("client_id"):
                return refused("invalid_grant")
            return self.grant(asked.get("scope", ""), secrets.token_hex(4))
        if KNOBS["refresh"] == "busy":
            return self.reply(503, {"error": "temporarily_unavailable"})
        if KNOBS["refresh"] == "page":
            return self.reply(403, "<html>who are you?</html>", kind="text/html")
        if KNOBS["refresh"] == "invalid_grant":
            return refused("invalid_grant")
        known = SEEN["refresh"].get(form.get("refresh_token"))
        if not known:
            return refused("invalid_grant")
        if known["used"]:
            # Somebody has stolen it: the whole family is over.
            SEEN["reused"] += 1
            for kind in ["access", "refresh"]:
                SEEN[kind] = {k: v for k, v in SEEN[kind].items() if v["family"] != known["family"]}
            return refused("invalid_grant")
        known["used"] = True
        self.grant(known["scope"], known["family"])

    def grant(self, scope, family):
        access, refresh = new("access"), new("refresh")
        SEEN["access"][access] = {"scope": scope, "family": family}
        SEEN["refresh"][refresh] = {"scope": scope, "family": family, "used": False}
        self.reply(200, {
            "access_token": access,
            "token_type": "bearer",
            "expires_in": KNOBS["expires_in"],
            "refresh_token": refresh,
            "scope": scope,
        })

    def signed_in(self):
        said = self.headers.get("authorization", "")
        known = SEEN["access"].get(said.removeprefix("Bearer "))
        if known is None:
            where = self.origin + "/.well-known/oauth-protected-resource/mcp"
            named = f'resource_metadata="{where}", ' if KNOBS["resource_metadata"] else ""
            challenge = f'Bearer {named}scope="files:read"'
            # A careless server repeats what it was sent.
            self.reply(401, {"error": f"who is {said}?"}, headers=[("www-authenticate", challenge)])
        return known

    def mcp(self, message):
        known = self.signed_in()
        if known is None:
            return
        method, number = message["method"], message.get("id")
        if number is None:
            self.reply(202)
            return
        if method == "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": TOOLS}
        elif method == "tools/call":
            if message["params"]["name"] == "write" and "files:write" not in known["scope"].split():
                challenge = 'Bearer error="insufficient_scope", scope="files:write"'
                self.reply(403, {"error": "insufficient_scope"}, headers=[("www-authenticate", challenge)])
                return
            SEEN["calls"] += 1
            result = {"content": [{"type": "text", "text": f"done {message['params']['name']}"}]}
        else:
            self.reply(200, {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no such method"}})
            return
        self.reply(200, {"jsonrpc": "2.0", "id": number, "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
# It ends with whoever started it.
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
