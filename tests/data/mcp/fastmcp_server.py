"""A server made with fastmcp: `fastmcp_server.py` on standard input and output, `fastmcp_server.py PORT` over HTTP."""

import sys

from fastmcp import Context, FastMCP

server = FastMCP("notes")
notes = {"first": "buy milk"}


@server.tool
def add(name: str, text: str) -> str:
    """Keeps a note."""
    notes[name] = text
    return f"kept {name}"


@server.tool
def fail() -> str:
    """Goes wrong."""
    raise ValueError("the disk is on fire")


@server.tool
async def count(ctx: Context, to: int) -> int:
    """Counts, and tells how far it is."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to)
    return to


@server.resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    return notes[name]


@server.prompt
def review(name: str) -> str:
    """Look over a note."""
    return f"Look over the note {name}."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
    else:
        server.run(show_banner=False)
