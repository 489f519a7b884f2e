# /// script
# requires-python = ">=3.9"
# ///
import json
import random
import sys

arguments = json.loads(sys.stdin.readline())["arguments"]
dice = [random.randint(1, arguments.get("sides", 6)) for _ in range(arguments.get("dice", 1))]
print(json.dumps({"dice": dice, "sum": sum(dice)}))
