"""Makes docs/CONFORMANCE.md from the checks files of a run: `table.py RESULTS DOCUMENT`. Fails when a check did."""

import json
import pathlib
import re
import sys

results, document = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
# The first two have a few scenarios for clients only.
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
# They change the lists by calling tools of the suite's own, which the gateway has not.
UNTESTABLE = [
    "sep-2575-server-sends-prompts-list-changed-on-subscription",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
]
# Scenarios for servers that are not run against the gateway.
LEFT_OUT = [
    (
        "`tools-call-*`, `json-schema-2020-12`, `elicitation-*`, `input-required-result-*`",
        "they call tools (or get prompts) by names of their own, and every name of the gateway's is `<provider>__<tool>`",
    ),
    (
        "`resources-read-*`, `resources-templates-read`, `resources-subscribe`, `resources-unsubscribe`",
        "they use resources of their own at `test://`, and every URI of the gateway's is at `aish://context/` or `aish://mcp/`",
    ),
    ("`prompts-get-*`", "they get prompts by names of their own; the gateway's are `<provider>__<prompt>`"),
    ("`completion-complete`", "it completes a prompt of its own; the gateway's are `<provider>__<prompt>`"),
    (
        "`http-*`, `dns-rebinding-protection`, `server-sse-*`, `server-session-lifecycle`",
        "they judge a server's HTTP, and the gateway speaks over pipes; they would judge supergateway",
    ),
    ("`tasks-*`, `sep-2640-*`", "extensions that the gateway has not"),
]
failed = []


def tested(check):
    """Whether the gateway could be tested for it: it has no tools by the names that the suite wants."""
    return check["id"] not in UNTESTABLE and not (check.get("errorMessage") or "").startswith("Not testable")


def counted(results):
    """Checks that went well and all that were made, by scenario and revision."""
    counts = {}
    for revision in REVISIONS:
        for checks in sorted((results / revision).rglob("checks.json")):
            folder = checks.parent.relative_to(results / revision)
            scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*$", "", str(folder))
            scenario = re.sub(r"^(client|server)[-/]", "", scenario)
            states = [it["status"] for it in json.loads(checks.read_text()) if tested(it)]
            good = states.count("SUCCESS")
            bad = states.count("FAILURE") + states.count("WARNING")
            counts.setdefault(scenario, {})[revision] = (good, good + bad)
            if bad or not good:
                failed.append(f"{revision} {scenario}: {good} of {good + bad}")
    return counts


def table(counts):
    revisions = [it for it in REVISIONS if any(it in of for of in counts.values())]
    rows = ["| scenario | " + " | ".join(revisions) + " |", "|---|" + "---|" * len(revisions)]
    for scenario in sorted(counts):
        cells = [counts[scenario].get(it) for it in revisions]
        shown = [f"{it[0]}/{it[1]}" if it else "–" for it in cells]
        rows.append(f"| {scenario} | " + " | ".join(shown) + " |")
    return rows


client, server = counted(results), counted(results / "server")
lines = [
    "# Conformance",
    "",
    "What the public conformance suite for MCP (npm, `@modelcontextprotocol/conformance` 0.2.0-alpha.12) says of the",
    "client in aishd: checks passed of checks made, in the scenarios for clients of both requirement sets, those of the two",
    "revisions before them, and the extensions for signing in. Those of `auth/*` are driven through `aishd` and",
    "`aishctl mcp login`, with a browser that agrees to everything. Checks that say SKIPPED or INFO are not counted; a warning",
    "counts as failed.",
    "",
    "Made by `tests/conformance/run.sh` from the files of its run; `tests/prepare-mcp.sh` installs what it needs.",
    "",
    *table(client),
    "",
    "And of the gateway, `aishctl mcp serve`, behind supergateway (npm), since the suite speaks HTTP only. Checks within these",
    "that would need a tool of the suite's own are not counted.",
    "",
    *table(server),
    "",
    "The suite's other scenarios for servers do not apply to a gateway:",
    "",
    *[f"- {scenarios}: {why}" for scenarios, why in LEFT_OUT],
]
document.write_text("\n".join(lines) + "\n")
print(f"{len(client)} scenarios of the client and {len(server)} of the gateway; {len(failed)} with a failure")
for line in failed:
    print(line)
sys.exit(1 if failed or not client or not server else 0)
