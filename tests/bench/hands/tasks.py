"""A task: how its folder is made, what is asked, what the scripted model does, and the commands that judge the result."""

import dataclasses
import fnmatch
import hashlib
import os
import shutil
import stat
import subprocess
import tomllib

from script import step_of

FIELDS = {"question", "setup", "check", "only", "needs", "smoke", "step", "real"}


@dataclasses.dataclass
class Task:
    name: str
    question: str
    steps: list
    # Shell, run in the folder: what holds afterwards (it ends with 0), and what is there before.
    check: str
    setup: str = ""
    # Patterns of the only paths that may change; without it any may.
    only: list = None
    # Programs that the task uses.
    needs: list = dataclasses.field(default_factory=list)
    # Taken by --smoke, and by --real.
    smoke: bool = False
    real: bool = False
    # Who wrote it.
    suite: str = "own"

    def lacks(self):
        return [it for it in self.needs if not shutil.which(it)]


def own(folder):
    """The tasks whose files are in a folder, by name."""
    tasks = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".toml"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            table = tomllib.load(file)
        strange = set(table) - FIELDS
        if strange:
            raise ValueError(f"{name} has an unknown {', '.join(sorted(strange))}")
        # A real model needs no script.
        steps = [step_of(it) for it in table.pop("step", [])]
        tasks.append(Task(name=name.removesuffix(".toml"), steps=steps, **table))
    return tasks


def shell(text, folder, environment):
    """Runs shell as it is in a task's file; its end and what it said."""
    told = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    return told.returncode, told.stdout.decode("utf-8", "replace")


def inventory(folder):
    """What each path below a folder is: its kind, rights and content. Times do not count."""
    found = {}
    for directory, folders, files in os.walk(folder):
        # What Python leaves beside a program that it has run is nobody's change.
        folders[:] = [it for it in folders if it != "__pycache__"]
        for name in [*folders, *files]:
            path = os.path.join(directory, name)
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                what = ("link", os.readlink(path))
            elif stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    what = ("file", stat.S_IMODE(about.st_mode), hashlib.file_digest(file, "sha256").hexdigest())
            else:
                what = ("folder", stat.S_IMODE(about.st_mode))
            found[os.path.relpath(path, folder)] = what
    return found


def wrong(task, world, before, **more):
    """Why the result is not right, or None; `more` is what the check finds in its environment."""
    code, said = shell(task.check, world.work, world.environment(**more))
    if code:
        return f"the check ended with {code}: {said.strip()[-300:]}"
    if task.only is None:
        return None
    after = inventory(world.work)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    other = [path for path in changed if not any(fnmatch.fnmatch(path, it) for it in task.only)]
    return f"also changed: {', '.join(other[:5])}" if other else None
