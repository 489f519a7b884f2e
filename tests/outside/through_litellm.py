#!/usr/bin/env python3
"""aish through LiteLLM's proxy: `tests/outside/litellm.py`, once tests/prepare-{outside,llamacpp,mcp}.sh have run.

Behind the proxy are llama.cpp's own server and a server that writes down what it is asked (`recorder.py`); in front of it is
aishd, in each of the three dialects that the proxy offers. In all of them a text, a call of a real MCP server's tool and its
result, a picture, what was counted, errors, and a key that is wrong.
"""

import base64
import json
import sys

from world import HERE, TARGET, Steps, World, answers, free_port, prepared, until

KEY = "sk-of-the-proxy-4711"
BEHIND = "sk-of-the-server-behind-4712"
READ = "The tool answered and I read its result!"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAYAAAC56t6BAAAADklEQVR4nGP4DwUMGAwAQuYX6TviV+QAAAAASUVORK5CYII="
)
DIALECTS = ["chat", "responses", "messages"]
PYTHON = TARGET / "mcp/venv/bin/python"
TIME = "call time__get_current_time {\"timezone\":\"Europe/Berlin\"}"


def proxy_config(llama, recorder):
    """In the form that LiteLLM reads; JSON is YAML. The recorder speaks chat alone, and the proxy turns all else into it."""
    def model(name, kind, port, key):
        where = {"model": kind, "api_base": f"http://127.0.0.1:{port}/v1", "api_key": key, "max_retries": 0}
        if name != "scripted":
            where["use_chat_completions_api"] = True
        return {"model_name": name, "litellm_params": where}

    return json.dumps({
        "model_list": [
            model("scripted", "openai/scripted", llama, BEHIND),
            model("recorded", "hosted_vllm/recorded", recorder, BEHIND),
            model("nobody", "hosted_vllm/nobody", 1, BEHIND),
        ],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"telemetry": False, "num_retries": 0},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    })


def config(world, proxy):
    def preset(name, model, dialect, key):
        return (
            f"[models.{name}]\nendpoint = \"http://127.0.0.1:{proxy}/v1\"\nmodel = \"{model}\"\napi = \"{dialect}\"\n"
            f"key_file = {json.dumps(key)}\nauth = \"bearer\"\npictures = true\n"
        )

    right, wrong = world.secret("key", KEY), world.secret("wrong", "sk-of-nobody-4713")
    tables = [
        preset(f"{model}-{dialect}", model, dialect, right) for model in ("scripted", "recorded", "nobody") for dialect in DIALECTS
    ] + [preset(f"locked-{dialect}", "recorded", dialect, wrong) for dialect in DIALECTS]
    server = f"[mcp.servers.time]\ncommand = {json.dumps(str(PYTHON))}\nargs = [\"-m\", \"mcp_server_time\"]\n"
    tools = "[tools]\nfiles = false\ntodo = false\nweb = false\n[shell]\ntool = false\n"
    approved = "[mcp.auto_approve]\n\"time__*\" = true\n"
    return "default_model = \"recorded-chat\"\n" + tools + approved + server + "".join(tables)


class Scene:
    def __init__(self, world):
        self.world, self.step = world, Steps()
        self.requests = world.top / "requests"

    def serve(self):
        """The servers behind, the proxy, the daemon, each when the one before it answers."""
        script, model = HERE / "../data/llamacpp/serve.py", TARGET / "llamacpp/scripted.gguf"
        world = self.world
        world.program(TARGET / "llamacpp/venv/bin/python", script, model, "--key", BEHIND, name="llama")
        line = until("llama.cpp", lambda: next((it for it in world.said("llama").splitlines() if it.startswith("LISTEN ")), None))
        recorder, proxy = free_port(), free_port()
        world.program(sys.executable, HERE / "recorder.py", recorder, self.requests, name="recorder")
        until("the recorder", lambda: answers(recorder))
        settings = world.top / "proxy.yaml"
        settings.write_text(proxy_config(int(line.rsplit(":", 1)[1]), recorder))
        offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "*", "DISABLE_ADMIN_UI": "True"}
        world.program(
            TARGET / "outside/litellm/bin/litellm", "--config", settings, "--host", "127.0.0.1", "--port", proxy, env=offline, name="proxy"
        )
        until("the proxy", lambda: answers(proxy))
        world.config(config(world, proxy))
        world.start()
        until("the server of the time", lambda: world.json("mcp", "list")["servers"][0]["state"] == "ready")

    def asked(self, preset, text, *more):
        return self.world.json("ask", "-m", preset, *more, text)

    def last(self):
        """What the server behind was asked at last."""
        return json.loads(self.requests.read_text().splitlines()[-1])

    def dialect(self, dialect):
        def check(what, right, seen):
            self.step(f"{dialect}: {what}", right, seen)

        said = self.asked(f"scripted-{dialect}", "hello")
        # With tools offered, that model calls one for each question, with arguments that mean nothing.
        called = [it["name"] for it in said.get("tool_calls", [])]
        check("llama.cpp's model calls a tool and reads its result", called and said["text"].endswith(READ), said)
        check("what llama.cpp counted", (said.get("usage") or {}).get("output_tokens", 0) > 10, said)
        said = self.asked(f"recorded-{dialect}", "an even better day")
        check("a text", said.get("text") == "You said: an even better day", said)
        usage = said.get("usage") or {}
        counted = [usage.get(it) for it in ("input_tokens", "output_tokens", "cached_input_tokens")]
        check("what was counted, and what of it was cached", counted == [120, 7, 64], said)
        authorization = {name.lower(): it for name, it in self.last()["headers"].items()}.get("authorization")
        check("the key of the proxy ends there", authorization == f"Bearer {BEHIND}", authorization)
        said = self.asked(f"recorded-{dialect}", TIME)
        called = [it["name"] for it in said.get("tool_calls", [])]
        right = called == ["time__get_current_time"] and "Europe/Berlin" in said["text"]
        check("a call with its arguments, and its result given back", right, said)
        picture = self.world.top / "home/white.png"
        picture.write_bytes(PNG)
        said = self.asked(f"recorded-{dialect}", "what is it?", "-f", str(picture))
        url = [it for it in self.parts() if base64.b64encode(PNG).decode() in json.dumps(it)]
        check("a picture", said.get("text") == "I see image_url." and url, said)
        for status, words in ((400, "refused with 400"), (429, "refused with 429"), (503, "refused with 503")):
            said = self.asked(f"recorded-{dialect}", f"fail {status}", "--timeout", "90s")
            told = json.dumps(said.get("error"))
            check(f"an error of the server behind, {status}, in its own words", words in told, said)
        said = self.asked(f"locked-{dialect}", "hello")
        # A proxy without a database looks there for a key that is not its own, and says so.
        refused = any(it in json.dumps(said.get("error")) for it in ("HTTP 401", "HTTP 400: No connected db"))
        check("a key that is wrong, and is not told", refused and "4713" not in json.dumps(said), said)
        said = self.asked(f"nobody-{dialect}", "hello", "--timeout", "90s")
        check("nobody behind the proxy", "HTTP 5" in json.dumps(said.get("error")), said)
        said = self.asked(f"recorded-{dialect}", "and now?")
        check("it goes on after errors", said.get("text") == "You said: and now?", said)

    def parts(self):
        return [it for message in self.last()["body"]["messages"] if isinstance(message["content"], list) for it in message["content"]]


def main():
    prepared(("outside/litellm", "prepare-outside.sh"), ("llamacpp/stamp", "prepare-llamacpp.sh"), ("mcp/stamp", "prepare-mcp.sh"))
    with World("[discovery]\nservers = []\n") as world:
        scene = Scene(world)
        scene.serve()
        for dialect in DIALECTS:
            scene.dialect(dialect)
        log = (world.top / "aishd.log").read_text()
        scene.step("no key in the log", not any(it in log for it in (KEY, BEHIND, "4713")))
        return scene.step.end()


if __name__ == "__main__":
    sys.exit(main())
