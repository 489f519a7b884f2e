"""A temporary directory in which one program works on one task: a home, the XDG directories and a folder of files."""

import functools
import os
import shutil
import subprocess
import tempfile

# What commands of a task may use, besides git and the shell.
PATH = "/usr/local/bin:/usr/bin:/bin"


@functools.cache
def path_of_programs():
    """PATH with the real python3 and node in front: a version manager's stand-ins need the home of its person."""
    found = []
    for program, ask in (("python3", ["-c", "import sys; print(sys.executable)"]), ("node", ["-p", "process.execPath"])):
        if shutil.which(program):
            told = subprocess.run([program, *ask], capture_output=True, text=True, check=True).stdout.strip()
            found.append(os.path.dirname(os.path.realpath(told)))
    return ":".join(dict.fromkeys([*found, *PATH.split(":")]))


class World:
    """Ends with `close`, and takes nothing from the person who runs the benchmark."""

    FOLDERS = ("home", "run", "state", "config", "data", "cache", "machine", "work")

    def __init__(self, name=None):
        # Not TMPDIR: it may be too long for the path of a socket.
        if name:
            self.root = f"/tmp/hands-{name}"
            # Of a run that was killed.
            shutil.rmtree(self.root, ignore_errors=True)
            os.mkdir(self.root, 0o700)
        else:
            self.root = tempfile.mkdtemp(prefix="hands-", dir="/tmp")
        for folder in self.FOLDERS:
            os.mkdir(self.path(folder), 0o700)
        self.work = self.path("work")
        git = "[user]\n\tname = Somebody\n\temail = somebody@example.org\n[init]\n\tdefaultBranch = main\n"
        self.write("home/.gitconfig", git)

    def path(self, below):
        return os.path.join(self.root, below)

    def write(self, below, text):
        path = self.path(below)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)

    def environment(self, **more):
        return {
            "HOME": self.path("home"),
            "XDG_RUNTIME_DIR": self.path("run"),
            "XDG_STATE_HOME": self.path("state"),
            "XDG_CONFIG_HOME": self.path("config"),
            "XDG_DATA_HOME": self.path("data"),
            "XDG_CACHE_HOME": self.path("cache"),
            "XDG_CONFIG_DIRS": self.path("machine"),
            "PATH": path_of_programs(),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "SHELL": "/bin/bash",
            "PYTHONDONTWRITEBYTECODE": "1",
            **more,
        }

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)
