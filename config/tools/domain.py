# /// script
# requires-python = ">=3.9"
# dependencies = ["idna==3.10"]
# ///
import json
import sys

import idna

name = json.loads(sys.stdin.readline())["arguments"]["name"]
try:
    print(json.dumps(idna.encode(name, uts46=True).decode()))
except idna.IDNAError as error:
    print(json.dumps({"content": [{"type": "text", "text": str(error)}], "isError": True}))
