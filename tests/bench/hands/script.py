"""A task's script: what a model that knows the task would do, step by step, and how far it has come.

It knows nothing of any program. A step says what is wanted; `tools` makes a call of it with what the program offers.
"""

import dataclasses
import re
import subprocess
import threading

KINDS = ("run", "read", "edit", "write", "say", "meanwhile")
FIELDS = {"old", "new", "all", "text", "fails", "refused", "shows", "beside", "words"}


@dataclasses.dataclass
class Step:
    """One thing that the model wants done; `what` is a command, a path or a text, as its kind says."""

    kind: str
    what: str
    old: str = ""
    new: str = ""
    text: str = ""
    # Every place of `old` is replaced.
    all: bool = False
    # The command ends with another code than 0, as the script means it to.
    fails: bool = False
    # The program must not do this.
    refused: bool = False
    # A pattern that the model must find in the result.
    shows: str = ""
    # Called in the same answer as the step before it.
    beside: bool = False
    # What the model says before the call.
    words: str = ""


def step_of(table):
    """The step that a table of a task's file says."""
    kinds = [it for it in KINDS if it in table]
    if len(kinds) != 1:
        raise ValueError(f"a step has one of {', '.join(KINDS)}: {table}")
    strange = set(table) - FIELDS - {kinds[0]}
    if strange:
        raise ValueError(f"a step has no {', '.join(sorted(strange))}: {table}")
    rest = {name: value for name, value in table.items() if name != kinds[0]}
    return Step(kind=kinds[0], what=table[kinds[0]], **rest)


@dataclasses.dataclass
class Result:
    """What a program gave back for a call."""

    text: str
    # Whether the program says that the call did not do what was asked; None where its dialect has no place for that.
    failed: bool | None


@dataclasses.dataclass
class Request:
    """What a program sent: how many bytes, and whether it offers tools."""

    size: int
    with_tools: bool


@dataclasses.dataclass
class Reply:
    """What the model says: words, then calls, each an id, a name and arguments."""

    words: str
    calls: list


class Play:
    """One run of a script against one program."""

    def __init__(self, steps, folder, environment, tools):
        self.steps = list(steps)
        self.folder = folder
        self.environment = environment
        # The module `tools`, or what stands in for it.
        self.tools = tools
        self.next = 0
        self.open = {}
        self.last = None
        self.requests = []
        self.results = []
        self.surprises = []
        self.ended = False
        self.lock = threading.Lock()

    def reply(self, offered, results):
        """The answer to a request that offers these tools and brings these results, by the ids of their calls."""
        with self.lock:
            if self.open and not set(self.open) <= set(results):
                # The same request once more: its answer was lost on the way.
                return self.last
            for name, step in self.open.items():
                self._take(step, results[name])
            self.open = {}
            self.last = self._go_on(offered)
            return self.last

    def _go_on(self, offered):
        calls, words = [], ""
        while self.next < len(self.steps):
            step = self.steps[self.next]
            if calls and not step.beside:
                break
            self.next += 1
            if step.kind == "meanwhile":
                subprocess.run(["sh", "-ec", step.what], cwd=self.folder, env=self.environment, check=True)
                continue
            if step.kind == "say":
                self.ended = True
                return Reply(step.what, [])
            name = f"call_{self.next}"
            call = self.tools.call_of(step, offered, self.folder, name)
            if call is None:
                self.surprises.append(f"step {self.next}: no tool to {step.kind} is offered")
                self.ended = True
                return Reply("I cannot do that here.", [])
            words = words or step.words
            self.open[name] = step
            calls.append(call)
        if not calls:
            self.ended = True
            return Reply(words or "Done.", [])
        return Reply(words, calls)

    def _take(self, step, result):
        at = self.steps.index(step) + 1
        self.results.append((step, result))
        failed = self.tools.looks_failed(step, result.text) if result.failed is None else result.failed
        shown = result.text.strip().replace("\n", " ⏎ ")[:300]
        if step.refused and not failed:
            self.surprises.append(f"step {at}: {step.kind} was not refused: {shown}")
        if failed and not (step.refused or step.fails):
            self.surprises.append(f"step {at}: {step.kind} failed: {shown}")
        if step.shows and not re.search(step.shows, result.text):
            self.surprises.append(f"step {at}: the result does not show {step.shows!r}: {shown}")
