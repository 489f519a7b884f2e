"""One line of JSON in, one line of JSON out. Which capability is called is in the environment."""

import json
import os
import sys

arguments = json.loads(sys.stdin.readline())["arguments"]
words = arguments["text"].split()
if os.environ["AISH_CAPABILITY"] == "count":
    print(json.dumps({"words": len(words), "characters": len(arguments["text"])}))
else:
    for _ in range(arguments.get("times", 1)):
        words.reverse()
    print(json.dumps({"content": [{"type": "text", "text": " ".join(words)}], "isError": False}))
