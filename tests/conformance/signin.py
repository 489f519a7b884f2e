"""Drives the real daemon and `aishctl mcp login` through a scenario of the suite that is about signing in: `signin.py URL`.

What the suite says of the scenario (`MCP_CONFORMANCE_CONTEXT`) becomes configuration. The browser is this script, called
with `--browse URL`: a person who agrees to everything. It signs in at most three times, and calls every tool once.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "../../target")).resolve() / "debug"
SIGN_INS = 3
PATIENCE = 20


def browse(url):
    """Opens the page, and the one that it sends on to, which is ours."""
    try:
        urllib.request.urlopen(url, timeout=PATIENCE).read()
    except urllib.error.HTTPError:
        pass


def secret(world, name, text):
    path = world / name
    path.write_text(text)
    path.chmod(0o600)
    return json.dumps(str(path))


def oauth(world, scenario, context):
    """The configuration that a scenario is about."""
    keys = {"client_metadata_url": '"https://conformance-test.local/client-metadata.json"'} if scenario == "auth/basic-cimd" else {}
    if "client_id" in context:
        keys["client_id"] = json.dumps(context["client_id"])
    if "client_secret" in context:
        keys["client_secret_file"] = secret(world, "secret", context["client_secret"])
    if "private_key_pem" in context:
        keys["private_key_file"] = secret(world, "key", context["private_key_pem"])
    if scenario.startswith("auth/client-credentials"):
        keys["grant"] = '"client_credentials"'
    if scenario.startswith("auth/enterprise"):
        keys["grant"] = '"enterprise"'
        keys["idp_token_endpoint"] = json.dumps(context["idp_token_endpoint"])
        keys["idp_client_id"] = json.dumps(context["idp_client_id"])
        keys["assertion_file"] = secret(world, "assertion", context["idp_id_token"])
    if scenario.startswith("auth/wif"):
        keys["grant"] = '"jwt_bearer"'
        token = context.get("valid_jwt", "")
        keys["assertion_file"] = secret(world, "assertion", token)
    return ", ".join(f"{name} = {value}" for name, value in keys.items())


class Scene:
    def __init__(self, world, url):
        self.world, self.sign_ins, self.trouble = world, 0, ""
        scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
        context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
        places = {"HOME": "home", "XDG_RUNTIME_DIR": "run", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
        for folder in [*places.values(), "config/aish"]:
            (world / folder).mkdir(mode=0o700)
        self.env = os.environ | {name: str(world / folder) for name, folder in places.items()}
        self.env["BROWSER"] = f"{sys.executable} {__file__} --browse"
        config = world / "config/aish/config.toml"
        config.write_text(
            "[discovery]\nservers = []\n[mcp.auto_approve]\n\"suite__*\" = true\n"
            f"[mcp.servers.suite]\nurl = {json.dumps(url)}\noauth = {{ {oauth(world, scenario, context)} }}\n"
        )
        config.chmod(0o600)
        self.log = open(world / "log", "w")
        self.daemon = subprocess.Popen([TARGET / "aishd"], env=self.env, stderr=self.log, stdout=self.log)

    def ctl(self, *args, **more):
        return subprocess.run([TARGET / "aishctl", *args], env=self.env, capture_output=True, text=True, timeout=60, **more)

    def status(self):
        """How the server does, once that is known."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            listed = self.ctl("mcp", "list", "--json")
            if listed.returncode == 0:
                servers = json.loads(listed.stdout)["servers"]
                if servers and servers[0]["state"] != "connecting":
                    return servers[0]
            time.sleep(0.1)
        raise TimeoutError("the daemon does not say how the server does")

    def sign_in(self):
        """Whether somebody could, once more. The server may want another sign-in after it."""
        if self.sign_ins == SIGN_INS:
            return False
        self.sign_ins += 1
        done = self.ctl("mcp", "login", "suite")
        self.trouble += done.stderr
        return done.returncode == 0 or "signed in, and not connected" in done.stderr

    def connected(self):
        while self.status()["state"] != "ready":
            if not self.sign_in():
                return False
        return True

    def call(self, tool):
        while True:
            calls = [{"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": {"name": tool, "arguments": {}}}]
            ran = self.ctl("tools", "run", "-", input=json.dumps(calls))
            said = ran.stdout + ran.stderr
            self.trouble += said
            if "aishctl mcp login suite" not in said:
                return
            if not self.sign_in():
                return

    def run(self):
        if not self.connected():
            return False
        tools = json.loads(self.ctl("mcp", "tools", "--json").stdout)["tools"]
        for tool in tools:
            self.call(tool["name"])
        return True

    def leave(self):
        self.daemon.terminate()
        self.daemon.wait(PATIENCE)
        self.log.close()
        print(self.trouble, file=sys.stderr)
        print((self.world / "log").read_text()[-4000:], file=sys.stderr)


def main():
    if sys.argv[1] == "--browse":
        browse(sys.argv[2])
        return 0
    world = pathlib.Path(tempfile.mkdtemp(prefix="a-"))
    scene = Scene(world, sys.argv[1])
    try:
        return 0 if scene.run() else 1
    finally:
        scene.leave()
        shutil.rmtree(world)


sys.exit(main())
