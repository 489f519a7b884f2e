"""The official Python client (PyPI `mcp`) as a client of the gateway: `official_client.py ERA COMMAND...`.

It lists, calls a tool that makes its server have one more, waits to be told of that, and lists again. What it finds is
one line of JSON on stdout.
"""

import asyncio
import json
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

ERA, COMMAND = sys.argv[1], sys.argv[2:]


async def names(client):
    found, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        found += [it.name for it in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def main():
    changed = asyncio.Event()

    async def handler(message):
        if type(message).__name__ == "ToolListChangedNotification":
            changed.set()

    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    async with Client(server, mode=ERA, message_handler=handler) as client:
        version = client.protocol_version
        before = await names(client)

        async def grow():
            await client.call_tool("plain__grow", {})

        if ERA == "legacy":
            await grow()
            await asyncio.wait_for(changed.wait(), 30)
        else:
            async with client.listen(tools_list_changed=True) as events:
                await grow()
                async for _event in events:
                    break
        after = await names(client)
        echoed = await client.call_tool("plain__echo", {"n": 1})
        denied = await client.call_tool("plain__die", {})
        print(json.dumps({
            "version": version,
            "before": len(before),
            "new": sorted(set(after) - set(before)),
            "echoed": echoed.content[0].text,
            "denied": denied.is_error,
        }))


asyncio.run(main())
