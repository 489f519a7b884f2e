"""The table: a row for each suite and program."""

import statistics


def table(rows):
    """Lines of a Markdown table; `rows` are (suite, program with version, runs)."""
    lines = [
        "| tasks | program | right | steps otherwise | requests | tokens sent | tokens of a request | seconds, median | asked |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for suite, program, runs in rows:
        requests = sum(it.requests for it in runs)
        sent = sum(it.tokens for it in runs)
        seconds = [it.seconds for it in runs]
        otherwise = sum(len(it.surprises) for it in runs)
        right = sum(it.wrong is None for it in runs)
        each = sent // requests if requests else 0
        asked = "all allowed" if runs[0].questions is None else f"{sum(it.questions for it in runs)} times"
        lines.append(
            f"| {suite} | {program} | {right} of {len(runs)} | {otherwise} | {requests:,} | {sent:,} | {each:,} "
            f"| {statistics.median(seconds):.1f} | {asked} |"
        )
    return lines
