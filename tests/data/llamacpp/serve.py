"""Serves one model with llama.cpp's own HTTP server on 127.0.0.1, until SIGTERM or the end of standard input.

usage: serve.py MODEL.gguf [--port N] [--alias NAME] [--ctx N] [--parallel N] [--ping SECONDS] [--key KEY]

Port 0, the default, takes a free one. When the model is loaded, one line is printed: `LISTEN http://127.0.0.1:PORT`.
"""

import argparse
import os
import signal
import socket
import sys
import threading

import xllamacpp

# Bound, and never listening.
HELD = socket.socket()


def free_port():
    """A port that stays ours: another server on this machine would share it, and take a part of the connections."""
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        HELD.setsockopt(socket.SOL_SOCKET, option, 1)
    HELD.bind(("127.0.0.1", 0))
    return HELD.getsockname()[1]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--alias", default="scripted")
    parser.add_argument("--ctx", type=int, default=8192)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--ping", type=int)
    parser.add_argument("--key")
    return parser.parse_args()


def parameters(asked):
    params = xllamacpp.CommonParams()
    params.model.path = asked.model
    if hasattr(params, "hostnames"):
        params.hostnames = ["127.0.0.1"]
    params.port = asked.port or free_port()
    params.n_ctx = asked.ctx
    params.n_parallel = asked.parallel
    # The scripted model is tiny: more threads would only wait for one another, which takes the processors from the tests.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.warmup = False
    params.ui = False
    params.offline = True
    if asked.ping is not None:
        params.sse_ping_interval = asked.ping
    if asked.key:
        params.api_keys = [asked.key]
    params.model_alias = {asked.alias} if isinstance(params.model_alias, set) else [asked.alias]
    return params


def end_with_parent():
    # A test that dies closes its end of the pipe; the server must not outlive it.
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
server = xllamacpp.Server(parameters(arguments()))
print("LISTEN", server.listening_address, flush=True)
threading.Thread(target=end_with_parent, daemon=True).start()
signal.sigwait([signal.SIGTERM, signal.SIGINT])
os._exit(0)
