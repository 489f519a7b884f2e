"""The official Python client (PyPI `mcp`) hears of resources through the gateway: `official_listener.py ERA COMMAND...`.

The daemon's server `trips` is offering.py. What the client finds is one line of JSON on stdout.
"""

import asyncio
import json
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import PromptReference

ERA, COMMAND = sys.argv[1], sys.argv[2:]
URI = "aish://mcp/trips/note://1"


async def main():
    updated = asyncio.Queue()

    async def handler(message):
        if type(message).__name__ == "ResourceUpdatedNotification":
            updated.put_nowait(str(message.params.uri))

    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    async with Client(server, mode=ERA, message_handler=handler) as client:
        listed = [str(it.uri) for it in (await client.list_resources()).resources]

        async def touch():
            await client.call_tool("trips__touch", {"uri": "note://1"})

        if ERA == "legacy":
            await client.subscribe_resource(URI)
            await touch()
            told = await asyncio.wait_for(updated.get(), 30)
            await client.unsubscribe_resource(URI)
        else:
            async with client.listen(resource_subscriptions=[URI]) as events:
                await touch()
                async for event in events:
                    told = str(event.uri)
                    break
        read = await client.read_resource(URI)
        city = await client.complete(PromptReference(name="trips__visit"), {"name": "city", "value": "Bas"})
        print(json.dumps({
            "version": client.protocol_version,
            "listed": listed,
            "told": told,
            "read": read.contents[0].text,
            "completed": city.completion.values,
        }))


asyncio.run(main())
