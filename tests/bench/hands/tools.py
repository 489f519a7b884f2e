"""Makes a call of a step, with the tools that a request offers.

The names are those of real requests. A model that has read a file knows its lines, so a patch, which takes whole lines, is
made from the file as it is.
"""

import os
import re
import shlex


def call_of(step, offered, folder, name):
    """A call (id, tool, arguments as an object or a text) for this step, or None where no tool can do it."""
    for can in (_aish, _claude_code, _codex):
        call = can(step, offered, folder)
        if call:
            return (name, *call)
    return None


# What aish says when it did what was asked; chat completions have no place for it besides the text.
DONE = {
    "run": r"^exit code 0\b",
    "read": r"\A(?: *\d+\t|\[the file is empty\])",
    "edit": r"\A.*: \d+ places? replaced",
    "write": r"\A.*: (?:made|replaced), ",
}


def looks_failed(step, text):
    """Whether a result of aish is of a step that was not done."""
    return not re.search(DONE[step.kind], text, re.MULTILINE)


def _path(step, folder):
    return os.path.join(folder, step.what)


def _aish(step, offered, _folder):
    if step.kind == "run" and "shell__run" in offered:
        return "shell__run", {"command": step.what}
    # The paths are as a person says them: from the directory of the conversation.
    if step.kind == "read" and "files__read" in offered:
        return "files__read", {"file_path": step.what}
    if step.kind == "edit" and "files__edit" in offered:
        rest = {"replace_all": True} if step.all else {}
        return "files__edit", {"file_path": step.what, "old_string": step.old, "new_string": step.new, **rest}
    if step.kind == "write" and "files__write" in offered:
        return "files__write", {"file_path": step.what, "content": step.text}
    return None


def _claude_code(step, offered, folder):
    if step.kind == "run" and "Bash" in offered:
        return "Bash", {"command": step.what, "description": "Run a command"}
    if step.kind == "read" and "Read" in offered:
        return "Read", {"file_path": _path(step, folder)}
    if step.kind == "edit" and "Edit" in offered:
        rest = {"replace_all": True} if step.all else {}
        return "Edit", {"file_path": _path(step, folder), "old_string": step.old, "new_string": step.new, **rest}
    if step.kind == "write" and "Write" in offered:
        return "Write", {"file_path": _path(step, folder), "content": step.text}
    return None


def _codex(step, offered, folder):
    if "exec_command" not in offered:
        return None
    if step.kind == "run":
        return "exec_command", {"cmd": step.what}
    if step.kind == "read":
        return "exec_command", {"cmd": f"cat {shlex.quote(step.what)}"}
    if step.kind == "edit":
        patch = _update(step, folder)
    else:
        lines = step.text.removesuffix("\n").split("\n")
        patch = "\n".join([f"*** Add File: {step.what}", *[f"+{it}" for it in lines]])
    patch = f"*** Begin Patch\n{patch}\n*** End Patch\n"
    if "apply_patch" in offered:
        return "apply_patch", patch
    return "exec_command", {"cmd": f"apply_patch <<'PATCH'\n{patch}PATCH"}


def _update(step, folder):
    """A patch that replaces a text, widened to the whole lines that have it."""
    text = _text_of(_path(step, folder))
    places = [it.start() for it in re.finditer(re.escape(step.old), text)] if step.old else []
    hunks = []
    if not places or (len(places) > 1 and not step.all):
        # The model is wrong about the file, as its script says: its lines go out as it has them.
        hunks.append((step.old.split("\n"), step.new.split("\n")))
        places = []
    done = -1
    for place in places:
        begin = text.rfind("\n", 0, place) + 1
        if begin <= done:
            continue
        end = text.find("\n", place + len(step.old))
        end = len(text) if end < 0 else end
        if step.old.endswith("\n"):
            end = place + len(step.old) - 1
        done = end
        old = text[begin:end]
        new = old.replace(step.old, step.new) if step.all else text[begin:place] + step.new + text[place + len(step.old) : end]
        if step.old.endswith("\n"):
            new = text[begin:place] + step.new.removesuffix("\n")
        hunks.append((old.split("\n"), new.split("\n") if new or not step.old.endswith("\n") else []))
    lines = [f"*** Update File: {step.what}"]
    for old, new in hunks:
        lines += ["@@", *[f"-{it}" for it in old], *[f"+{it}" for it in new]]
    return "\n".join(lines)


def _text_of(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            # What a model sees of a file has plain line ends.
            return file.read().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return ""
