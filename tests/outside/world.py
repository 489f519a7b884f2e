"""A daemon in a world of its own, for the scripts beside this: its home, its configuration, its log, and `aishctl`.

The programs are those that cargo built, in `debug` of the target directory. Steps are told one a line as they pass or fail.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "../../target")).resolve()
PROGRAMS = TARGET / "debug"
PATIENCE = 60
PLACES = {"HOME": "home", "XDG_RUNTIME_DIR": "run", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data"}


def prepared(*places):
    """Ends the script where something that it needs was not prepared."""
    for place, script in places:
        if not (TARGET / place).exists():
            sys.exit(f"{TARGET / place} is missing: run tests/{script}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, condition):
    """What the condition gives as soon as it gives something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise TimeoutError(f"waited in vain for {what}")


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Steps:
    """What passed and what failed; `end` is the exit code."""

    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, name, is_right, seen=""):
        self.passed += bool(is_right)
        self.failed += not is_right
        print(f"{'ok  ' if is_right else 'FAIL'} {name}" + ("" if is_right else f": {seen}"), flush=True)
        return is_right

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


class World:
    """Ends its daemon and its other programs, and leaves nothing behind."""

    def __init__(self, config, **variables):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="aish-outside-"))
        for folder in [*PLACES.values(), "config/aish", "tmp"]:
            (self.top / folder).mkdir(mode=0o700)
        base = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        places = {name: str(self.top / folder) for name, folder in PLACES.items()}
        self.env = base | places | {"TMPDIR": str(self.top / "tmp")} | variables
        self.config(config)
        self.log = open(self.top / "aishd.log", "ab")
        self.children, self.daemon = [], None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        for child in self.children:
            child.kill()
            child.wait()
        self.log.close()
        if os.environ.get("AISH_KEEP_WORLD"):
            print(f"kept: {self.top}")
        else:
            shutil.rmtree(self.top, ignore_errors=True)

    def config(self, text):
        path = self.top / "config/aish/config.toml"
        path.write_text(text)
        path.chmod(0o600)

    def secret(self, name, text):
        """A file that only its owner reads, as the configuration wants it."""
        path = self.top / "home" / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def start(self):
        self.daemon = subprocess.Popen([PROGRAMS / "aishd"], env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until("the daemon", lambda: self.ctl("status").returncode == 0)

    def stop(self):
        if self.daemon:
            self.daemon.send_signal(signal.SIGTERM)
            self.daemon.wait(PATIENCE)
            self.daemon = None

    def program(self, *command, env=None, name="program", **more):
        """Another program, as long as the world lives; what it says is in NAME.log."""
        out = open(self.top / f"{name}.log", "ab")
        child = subprocess.Popen(
            [str(it) for it in command], env=self.env | (env or {}), stdout=out, stderr=out, stdin=subprocess.PIPE, **more
        )
        self.children.append(child)
        return child

    def said(self, name):
        return (self.top / f"{name}.log").read_text(errors="replace")

    def ctl(self, *args, **more):
        more = {"capture_output": True, "text": True, "timeout": 120, "cwd": self.top / "home"} | more
        if "input" not in more:
            more["stdin"] = subprocess.DEVNULL
        return subprocess.run([PROGRAMS / "aishctl", *args], env=self.env, **more)

    def json(self, *args, **more):
        """The object at the end of what a command says."""
        done = self.ctl(*args, "--json", **more)
        lines = done.stdout.strip().splitlines()
        return json.loads(lines[-1]) if lines else {"error": done.stderr}
