"""A server made with fastmcp and fastmcp-tasks: its calls become tasks (`io.modelcontextprotocol/tasks`, 2026-07-28).

`fastmcp_tasks_server.py` on standard input and output, `fastmcp_tasks_server.py PORT` over HTTP.
"""

import asyncio
import sys
from datetime import timedelta

from fastmcp import Context, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

server = FastMCP("kitchen")
server.add_extension(TasksExtension())
soon = TaskConfig(mode="optional", poll_interval=timedelta(milliseconds=100))


@server.tool(task=soon)
async def brew(cups: int) -> str:
    """Takes its time."""
    await asyncio.sleep(0.5)
    return f"{cups} cups"


@server.tool(task=soon)
async def burn() -> str:
    """Goes wrong."""
    raise ValueError("the pot is empty")


@server.tool(task=soon)
async def order(ctx: Context) -> str | InputRequiredResult:
    """Wants to know something."""
    answer = (ctx.input_responses or {}).get("what")
    if answer is None:
        schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
        form = ElicitRequestFormParams(message="what shall it be?", requested_schema=schema)
        return InputRequiredResult(input_requests={"what": ElicitRequest(params=form)})
    return f"one {answer.content['value']}" if answer.action == "accept" else "nothing"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
    else:
        server.run(show_banner=False)
