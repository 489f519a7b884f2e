#!/bin/sh
# What the suite says of a scenario is in its environment; our driver takes it as its first argument.
exec "$1" "${MCP_CONFORMANCE_CONTEXT:-}" "$2"
