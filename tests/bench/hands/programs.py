"""The programs that are driven: how each is configured for the scripted model, asked one question, and ended."""

import dataclasses
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time

# The longest that one question may take.
PATIENCE_S = 120


class NotThere(Exception):
    """The program cannot be driven here, and why."""


@dataclasses.dataclass
class Outcome:
    """How a question ended."""

    code: object
    seconds: float
    out: str
    err: str


def asked(arguments, world, environment, at_terminal=False, patience=PATIENCE_S):
    """Runs a program on one question; at a terminal if somebody can be asked there, else with nothing to read from."""
    with open(world.path("out"), "w+b") as out, open(world.path("err"), "w+b") as err:
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        reader = None
        if at_terminal:
            master, terminal = pty.openpty()
            # What is said about the work goes to the person's screen, the answer into a file.
            streams.update(stdin=terminal, stderr=terminal)
        begin = time.monotonic()
        process = subprocess.Popen(arguments, cwd=world.work, env=environment, start_new_session=True, **streams)
        if at_terminal:
            os.close(terminal)
            reader = threading.Thread(target=_copy, args=(master, err), daemon=True)
            reader.start()
        try:
            code = process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            code = f"no end within {patience} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = time.monotonic() - begin
        if reader:
            reader.join(timeout=5)
            os.close(master)
        return Outcome(code, seconds, _text_of(out), _text_of(err))


def _copy(master, file):
    """All that a terminal shows; it ends when nobody has the terminal open any more."""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            return
        file.write(piece)


def _text_of(file):
    file.flush()
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def version_of(program, pattern=r"(\d+\.\d+\.\d+\S*)"):
    told = subprocess.run([program, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    found = re.search(pattern, told.stdout)
    if told.returncode or not found:
        raise NotThere(f"{program} --version ended with {told.returncode}: {(told.stderr or told.stdout).strip()[:200]}")
    return found.group(1)


class Aish:
    """A daemon, a client that asks, and a person who answers what is asked about at another terminal."""

    name = "aish"

    def __init__(self, folder):
        for program in ("aishd", "aishctl"):
            if not os.access(os.path.join(folder, program), os.X_OK):
                raise NotThere(f"there is no {program} in {folder}: cargo build")
        self.folder = folder
        self.version = version_of(os.path.join(folder, "aishctl"))
        self.answers, self.proposed = [], []

    def start(self, world, url, model="scripted", context_tokens=200_000, more=""):
        preset = f'endpoint = "{url}/v1"\nmodel = "{model}"\ncontext_tokens = {context_tokens}\n'
        config = f'default_model = "bench"\n\n[models.bench]\n{preset}{more}\n[discovery]\nservers = []\n'
        world.write("config/aish/config.toml", config)
        self.world, self.answers, self.proposed, self.started = world, [], [], []
        self.log = open(world.path("aishd.log"), "wb")
        self.daemon = subprocess.Popen(
            [os.path.join(self.folder, "aishd")],
            cwd=world.work,
            env=world.environment(),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        self.started.append(self.daemon)
        self._wait()
        self.watch = subprocess.Popen(
            [self._ctl(), "confirm", "watch", "--jsonl"],
            cwd=world.work,
            env=world.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.started.append(self.watch)
        threading.Thread(target=self._answer, daemon=True).start()

    def _ctl(self):
        return os.path.join(self.folder, "aishctl")

    def _wait(self):
        socket = self.world.path("run/aish/aishd.sock")
        until = time.monotonic() + 30
        while not os.path.exists(socket):
            if self.daemon.poll() is not None or time.monotonic() > until:
                with open(self.world.path("aishd.log"), encoding="utf-8", errors="replace") as log:
                    raise NotThere(f"the daemon does not listen: {log.read()[-500:]}")
            time.sleep(0.01)

    def _answer(self):
        """What a person does who says yes to all: keeps each change once it is shown, and allows the rest."""
        waiting = {}
        for line in self.watch.stdout:
            event = json.loads(line)
            data = event["data"]
            if event["kind"] == "confirmRequested":
                call = data["subject"].get("call", {})
                self.proposed.append(f"{call.get('tool', data['title'])} {call.get('arguments', '')}")
                if "changesFile" in data["subject"]:
                    waiting[data["confirm"]] = data["title"]
                else:
                    self._say_yes(data["title"], "allow", data["confirm"], "--digest", data["digest"])
            elif event["kind"] == "commandTried" and data["confirm"] in waiting:
                self._say_yes(waiting.pop(data["confirm"]), "keep", data["confirm"], "--changes", data["changes"])

    def _say_yes(self, title, verb, *arguments):
        told = subprocess.run(
            [self._ctl(), "confirm", verb, *arguments],
            cwd=self.world.work,
            env=self.world.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.answers.append((title, verb, told.returncode, told.stderr.strip()))

    def ask(self, question, patience=PATIENCE_S):
        command = [self._ctl(), "ask", "--no-stdin", question]
        return asked(command, self.world, self.world.environment(), at_terminal=True, patience=patience)

    def questions(self):
        return len(self.answers)

    def stop(self):
        for process in reversed(self.started):
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()


class ClaudeCode:
    """Anthropic's claude-code, in its mode for scripts, with the four tools allowed."""

    name = "claude-code"
    package = "@anthropic-ai/claude-code"
    tools = ("Bash", "Read", "Edit", "Write")

    def __init__(self, modules):
        self.program = os.path.join(modules, ".bin", "claude")
        self.version = version_of(self.program)

    def start(self, world, url):
        self.world = world
        self.environment = world.environment(
            ANTHROPIC_BASE_URL=url,
            ANTHROPIC_API_KEY="sk-scripted",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            DISABLE_ERROR_REPORTING="1",
            DISABLE_TELEMETRY="1",
        )

    def ask(self, question):
        return asked([self.program, "-p", question, "--allowedTools", *self.tools], self.world, self.environment)

    def questions(self):
        """Nobody is asked: all is allowed beforehand."""
        return None

    def stop(self):
        """It has ended with its answer."""


class Codex:
    """OpenAI's codex, in its mode for scripts, with nothing asked and nothing held."""

    name = "codex"
    package = "@openai/codex"
    # A model that codex knows, so that it offers the tools that it would; a newer one is driven by programs in JavaScript.
    model = "gpt-5.5"

    def __init__(self, modules):
        self.program = os.path.join(modules, ".bin", "codex")
        self.version = version_of(self.program)

    def start(self, world, url):
        self.world = world
        provider = f'name = "scripted"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
        top = f'model = "{self.model}"\nmodel_provider = "scripted"\ncheck_for_update_on_startup = false\n'
        world.write("home/.codex/config.toml", f"{top}\n[model_providers.scripted]\n{provider}")
        self.environment = world.environment(SCRIPTED_KEY="sk-scripted")

    def ask(self, question):
        flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return asked([self.program, "exec", *flags, question], self.world, self.environment)

    def questions(self):
        """Nobody is asked: all is allowed beforehand."""
        return None

    def stop(self):
        """It has ended with its answer."""
