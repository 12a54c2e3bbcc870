"""Worker processes that cache what is in a file, and drop what one of them changes. There is no server; start several.

    python cache_workers.py prices.json

Type `get KEY`, or `set KEY VALUE`; end of input or Ctrl-C ends the worker.
"""

import contextlib
import json
import sys
from pathlib import Path

from antiphon.toolkit import SharedCache

store = Path(sys.argv[1])
cache = SharedCache[str](store.name)


def load(key: str) -> str:
    print("loads", key, flush=True)
    return str(json.loads(store.read_text()).get(key, "nothing"))


with contextlib.suppress(KeyboardInterrupt):
    for line in sys.stdin:
        match line.split():
            case ["get", key]:
                print("got", cache.get(key, load), flush=True)
            case ["set", key, value]:
                entries = json.loads(store.read_text()) if store.exists() else {}
                store.write_text(json.dumps(entries | {key: value}))
                cache.invalidate(key)  # after this no worker has the old value
                print("set", flush=True)
            case ["wait"]:
                print("shares", cache.wait(60), flush=True)
cache.close()
