#!/bin/sh
# What the suite says of a scenario is in its environment; our driver takes it as its first argument. Signing in is done by
# the whole: the daemon, and `aishctl mcp login` with a browser.
# The suite begins all scenarios at once, with the servers of all in one process; a small machine is then so late that
# limits are judged instead of the client. So one goes after the other: `client.sh LOCK DRIVER URL`.
lock=$1 driver=$2 url=$3
case "${MCP_CONFORMANCE_SCENARIO:-}" in
    auth/*) exec flock "$lock" python3 "$(dirname -- "$0")/signin.py" "$url" ;;
esac
exec flock "$lock" "$driver" "${MCP_CONFORMANCE_CONTEXT:-}" "$url"
