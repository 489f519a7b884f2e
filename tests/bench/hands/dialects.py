"""The three ways in which programs ask models: what a request offers and brings, and how an answer is streamed.

Chat completions (aish), Anthropic's messages (claude-code) and OpenAI's responses (codex), each as its real requests are.
"""

import json
import re

from script import Result

# What counts as a token of a request or an answer, for every program alike.
BYTES_PER_TOKEN = 4


def tokens(size):
    return max(1, size // BYTES_PER_TOKEN)


def dialect_of(path):
    """The dialect of a request's path, or None."""
    path = path.split("?")[0]
    for ending, dialect in (("/chat/completions", Chat), ("/messages", Messages), ("/responses", Responses)):
        if path.endswith(ending):
            return dialect
    return None


def _size(reply):
    return len(reply.words.encode()) + sum(len(json.dumps(call[1:]).encode()) for call in reply.calls)


def _pieces(text):
    """A text in the small parts in which it would come."""
    return [text[at : at + 24] for at in range(0, len(text), 24)]


def _joined(content):
    """The text of a content that is a text or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(it.get("text", "") for it in content or [] if isinstance(it, dict))


class Chat:
    """POST /v1/chat/completions."""

    @staticmethod
    def offered(request):
        return {it["function"]["name"] for it in request.get("tools") or []}

    @staticmethod
    def results(request):
        found = {}
        for message in request["messages"]:
            if message["role"] == "tool":
                found[message["tool_call_id"]] = Result(_joined(message["content"]), None)
        return found

    @staticmethod
    def stream(reply, sent):
        def chunk(delta, finish=None, **more):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return {"id": "chat-1", "object": "chat.completion.chunk", "model": "scripted", "choices": [choice], **more}

        yield None, chunk({"role": "assistant", "content": ""})
        for piece in _pieces(reply.words):
            yield None, chunk({"content": piece})
        for at, (name, tool, arguments) in enumerate(reply.calls):
            function = {"name": tool, "arguments": ""}
            yield None, chunk({"tool_calls": [{"index": at, "id": name, "type": "function", "function": function}]})
            for piece in _pieces(json.dumps(arguments)):
                yield None, chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
        yield None, chunk({}, "tool_calls" if reply.calls else "stop")
        read, written = tokens(sent), tokens(_size(reply))
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        yield None, {"id": "chat-1", "object": "chat.completion.chunk", "model": "scripted", "choices": [], "usage": usage}
        yield None, "[DONE]"


class Messages:
    """POST /v1/messages."""

    @staticmethod
    def offered(request):
        return {it["name"] for it in request.get("tools") or [] if "name" in it}

    @staticmethod
    def results(request):
        found = {}
        for message in request["messages"]:
            if isinstance(message["content"], str):
                continue
            for block in message["content"]:
                if block.get("type") == "tool_result":
                    failed = bool(block.get("is_error"))
                    found[block["tool_use_id"]] = Result(_joined(block.get("content")), failed)
        return found

    @staticmethod
    def stream(reply, sent):
        usage = {"input_tokens": tokens(sent), "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [], "usage": usage}
        yield "message_start", {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}}
        blocks = [({"type": "text", "text": ""}, "text_delta", "text", reply.words)] if reply.words else []
        for name, tool, arguments in reply.calls:
            block = {"type": "tool_use", "id": name, "name": tool, "input": {}}
            blocks.append((block, "input_json_delta", "partial_json", json.dumps(arguments)))
        for at, (block, kind, field, text) in enumerate(blocks):
            yield "content_block_start", {"type": "content_block_start", "index": at, "content_block": block}
            for piece in _pieces(text):
                delta = {"type": kind, field: piece}
                yield "content_block_delta", {"type": "content_block_delta", "index": at, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": at}
        delta = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens(_size(reply))}}
        yield "message_stop", {"type": "message_stop"}


class Responses:
    """POST /v1/responses."""

    @staticmethod
    def offered(request):
        return {it["name"] for it in request.get("tools") or [] if "name" in it}

    @staticmethod
    def results(request):
        found = {}
        for item in request["input"]:
            if item.get("type") in ("function_call_output", "custom_tool_call_output"):
                text = _joined(item["output"])
                found[item["call_id"]] = Result(text, _failed_responses(text))
        return found

    @staticmethod
    def stream(reply, sent):
        yield "response.created", {"type": "response.created", "response": {"id": "resp_1"}}
        items = []
        if reply.words:
            content = [{"type": "output_text", "text": reply.words, "annotations": []}]
            message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
            items.append(message)
        for name, tool, arguments in reply.calls:
            if isinstance(arguments, str):
                kind = {"type": "custom_tool_call", "input": arguments}
            else:
                kind = {"type": "function_call", "arguments": json.dumps(arguments)}
            items.append({**kind, "id": f"fc_{name}", "call_id": name, "name": tool, "status": "completed"})
        for at, item in enumerate(items):
            yield "response.output_item.added", {"type": "response.output_item.added", "output_index": at, "item": item}
            if item["type"] == "message":
                for piece in _pieces(reply.words):
                    delta = {"output_index": at, "content_index": 0, "item_id": "msg_1", "delta": piece}
                    yield "response.output_text.delta", {"type": "response.output_text.delta", **delta}
            yield "response.output_item.done", {"type": "response.output_item.done", "output_index": at, "item": item}
        read, written = tokens(sent), tokens(_size(reply))
        usage = {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        }
        response = {"id": "resp_1", "status": "completed", "usage": usage}
        yield "response.completed", {"type": "response.completed", "response": response}


def _failed_responses(text):
    code = re.search(r"(?:exited with code|Exit code:|\"exit_code\":) ?(-?\d+)", text)
    if code:
        return code.group(1) != "0"
    return bool(re.match(r"\A(?:apply_patch verification failed|.{0,40}(?:failed|error))", text, re.IGNORECASE))
