#!/bin/sh
# What the suite says of a scenario is in its environment; our driver takes it as its first argument. Signing in is done by
# the whole: the daemon, and `aishctl mcp login` with a browser.
case "${MCP_CONFORMANCE_SCENARIO:-}" in
    auth/*) exec python3 "$(dirname -- "$0")/signin.py" "$2" ;;
esac
exec "$1" "${MCP_CONFORMANCE_CONTEXT:-}" "$2"
