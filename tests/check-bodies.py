#!/usr/bin/env python3
"""Holds requests against the types of the official SDKs: `pip install anthropic openai`, and then

    AISH_TEST_BODIES=/tmp/bodies cargo test -p aishd --test daemon dialects
    tests/check-bodies.py /tmp/bodies

The kit's upstream writes each request there as NUMBER.API.json. A field that the types do not know is a fault too.
"""

import json
import pathlib
import sys
import typing

import pydantic
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

TYPES = {
    "messages": MessageCreateParamsStreaming,
    "responses": ResponseCreateParamsStreaming,
    "chat": CompletionCreateParamsStreaming,
}


def unknown(value, kind, path=""):
    """Fields that no type of a union has: pydantic lets them pass."""
    if typing.get_origin(kind) in (typing.Annotated, typing.Required, typing.NotRequired):
        return unknown(value, typing.get_args(kind)[0], path)
    arguments = typing.get_args(kind)
    if isinstance(value, list) and arguments:
        kinds = [it for it in arguments if it is not type(None)]
        inner = [unknown(it, kinds[0], f"{path}[{at}]") for at, it in enumerate(value)]
        if typing.get_origin(kind) is typing.Union:
            return min((unknown(value, it, path) for it in kinds), key=len)
        return [it for found in inner for it in found]
    if isinstance(value, dict) and arguments and typing.get_origin(kind) is typing.Union:
        named = [it for it in arguments if typing.is_typeddict(it) and fits(value, it)]
        found = [unknown(value, it, path) for it in named]
        return min(found, key=len) if found else []
    if isinstance(value, dict) and typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        found = [f"{path}.{name}" for name in value if name not in hints]
        for name, inner in value.items():
            if name in hints:
                found += unknown(inner, hints[name], f"{path}.{name}")
        return found
    return []


def fits(value, kind):
    try:
        pydantic.TypeAdapter(kind).validate_python(value)
        return True
    except pydantic.ValidationError:
        return False


def main(folder):
    adapters = {name: pydantic.TypeAdapter(it) for name, it in TYPES.items()}
    checked, faults = 0, 0
    for file in sorted(pathlib.Path(folder).glob("*.json")):
        api = file.name.split(".")[1]
        body = json.loads(file.read_text())
        checked += 1
        try:
            adapters[api].validate_python(body, strict=False)
            wrong = unknown(body, TYPES[api])
        except pydantic.ValidationError as error:
            wrong = [str(error)]
        for it in wrong:
            print(f"{file}: {it}")
        faults += bool(wrong)
    print(f"{checked} requests, {faults} with faults")
    return 1 if faults or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
