#!/usr/bin/env python3
"""Has the official SDKs read the recorded streams of tests/data/streams, and holds what they read against what aish makes of them:

    tests/prepare-outside.sh
    target/outside/sdks/bin/python tests/check-streams.py

Text, calls, what was counted: where an SDK reads a stream to its end and aish does too, both must have read the same. Streams with
a quirk that an SDK gives up on, or reads otherwise by its own rules, are named with the reason.
"""

import collections
import json
import pathlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import openai

FOLDER = pathlib.Path(__file__).resolve().parent / "data/streams"
# Where aish knows more than the SDK of the dialect: what the stream is about, as tests/data/streams/README.md has it.
OTHERWISE = {
    "captured_llamacpp_whole": "a whole answer and no stream",
    "captured_llamacpp_whole_call": "a whole answer and no stream",
    "json_200_not_sse": "a whole answer and no stream",
    "last_event_without_blank_line": "the SDK drops it, as the rules of event streams say",
    "llamacpp_old_repeated_name": "the name of a call comes with each of its pieces",
    "ollama_parallel_all_index0": "two calls with one number",
    "tool_no_index_two": "two calls without a number",
    "openai_refusal": "a refusal is the text of the answer",
    "think_lone_end": "<think> is what the model thinks",
    "think_split": "<think> is what the model thinks",
    "written_call": "a call that is written as the answer",
}


class Handler(BaseHTTPRequestHandler):
    """Answers `/NAME/…` with the stream of that name."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = (FOLDER / f"{self.path.split('/')[1]}.sse").read_bytes()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def of_chat(address):
    client = openai.OpenAI(base_url=address, api_key="k", max_retries=0)
    text, calls, usage, finish = "", {}, None, None
    for chunk in client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True):
        for choice in chunk.choices or []:
            finish = choice.finish_reason or finish
            text += choice.delta.content or ""
            for it in choice.delta.tool_calls or []:
                call = calls.setdefault(it.index, ["", ""])
                call[0] += it.function.name or ""
                call[1] += it.function.arguments or ""
        if chunk.usage:
            usage = {"input": chunk.usage.prompt_tokens, "output": chunk.usage.completion_tokens}
    return text, [calls[it] for it in sorted(calls)], usage, finish is not None


def of_responses(address):
    client = openai.OpenAI(base_url=address, api_key="k", max_retries=0)
    response = None
    for event in client.responses.create(model="m", input="x", stream=True):
        if event.type in ("response.completed", "response.incomplete", "response.failed"):
            response = event.response
    if response is None or response.status == "failed":
        raise ValueError("no whole answer")
    calls = [[it.name, it.arguments] for it in response.output if it.type == "function_call"]
    usage = response.usage and {"input": response.usage.input_tokens, "output": response.usage.output_tokens}
    return response.output_text, calls, usage, True


def of_messages(address):
    client = anthropic.Anthropic(base_url=address, api_key="k", max_retries=0)
    with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as stream:
        message = stream.get_final_message()
    text = "".join(it.text for it in message.content if it.type == "text")
    calls = [[it.name, json.dumps(it.input)] for it in message.content if it.type == "tool_use"]
    counted = message.usage
    read = counted.input_tokens + (counted.cache_read_input_tokens or 0) + (counted.cache_creation_input_tokens or 0)
    return text, calls, {"input": read, "output": counted.output_tokens}, message.stop_reason is not None


READERS = {"chat": of_chat, "responses": of_responses, "messages": of_messages}


def whole(arguments):
    """Arguments as the value that they are; an SDK leaves none as an empty text."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def compare(expected, read):
    """What an SDK read otherwise than aish."""
    text, calls, usage, _ = read
    found = []
    if text != expected.get("text", ""):
        found.append(f"text {text[:60]!r}, and not {expected.get('text', '')[:60]!r}")
    ours = [[it["name"], whole(it.get("streamed", it["arguments"]))] for it in expected.get("calls", [])]
    theirs = [[name, whole(arguments)] for name, arguments in calls]
    if ours != theirs:
        found.append(f"calls {theirs}, and not {ours}")
    counted = expected.get("usage")
    if usage and counted and any(usage[it] != counted.get(it) for it in ("input", "output") if counted.get(it) is not None):
        found.append(f"counted {usage}, and not {counted}")
    return found


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    same, apart, given_up, known, odd = collections.Counter(), collections.Counter(), [], [], []
    for file in sorted(FOLDER.glob("*.expect.json")):
        name, expected = file.name.removesuffix(".expect.json"), json.loads(file.read_text())
        api = expected.get("api", "chat")
        address = f"http://127.0.0.1:{server.server_port}/{name}"
        try:
            read = READERS[api](address)
        except Exception as error:
            given_up.append(f"{name} ({api}): {type(error).__name__}; aish: {expected.get('failure', 'reads it')[:70]}")
            continue
        if "failure" in expected:
            apart[api] += 1
            continue
        found = compare(expected, read)
        if found and name in OTHERWISE:
            known.append(f"{name} ({api}): {OTHERWISE[name]}")
        elif found:
            odd.append(f"{name} ({api}): {'; '.join(found)}")
        else:
            same[api] += 1
    for line in given_up:
        print(f"given up by the SDK: {line}")
    for line in known:
        print(f"more than the SDK reads: {line}")
    for line in odd:
        print(f"OTHERWISE {line}")
    for api in READERS:
        print(f"{api}: {same[api]} streams read the same; {apart[api]} that aish takes for broken are read in silence")
    print(f"{len(given_up)} given up by the SDK, {len(known)} of which aish reads more, {len(odd)} otherwise for no reason")
    return 1 if odd or not sum(same.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
