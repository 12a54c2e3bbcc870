"""A candidate of `bench.takeover`, by Antiphon or by a lease of etcd:

    python -m bench.takeover_member antiphon OPTIONS NAME ADDRESS CONTACT…
    python -m bench.takeover_member etcd TTL NAME ADDRESS

While it leads it prints a line with its token and the monotonic time, every BEAT_S.
"""

import asyncio
import base64
import http.client
import json
import sys
import time
from typing import Any, Final

from antiphon import ClosedError, Node, Options
from antiphon.toolkit import Leader, LockLostError, Tools

BEAT_S: Final = 0.01
POLL_S: Final = 0.01
"""How often a candidate asks etcd; on the average it learns half of this late."""
KEY: Final = base64.b64encode(b"leader").decode()


def write(token: int) -> None:
    print(json.dumps({"token": token, "time_ns": time.monotonic_ns()}), flush=True)


async def lead(options: str, name: str, address: str, *contacts: str) -> None:
    chosen = Options.fast() if options == "fast" else Options()
    async with Node(name, address=address, options=chosen, rejoin=True) as node:
        members = None if contacts else {name: address}
        leader = Leader(Tools(await node.join("takeover", contacts=contacts, members=members)))
        async with leader.tools:
            await leader.tools.live()
            candidate = asyncio.create_task(_tell_candidate(leader))
            while True:
                try:
                    async with leader.term() as term:
                        while True:
                            write(term.token)
                            await asyncio.sleep(BEAT_S)
                except (LockLostError, ClosedError):
                    await asyncio.sleep(BEAT_S)
            await candidate


async def _tell_candidate(leader: Leader) -> None:
    """Say once that the request is queued, so that the parent knows when everybody stands ready."""
    while leader.current != leader.tools.process and leader.tools.process not in leader.candidates:
        await asyncio.sleep(BEAT_S)
    print(json.dumps({"ready": True}), flush=True)


class Etcd:
    """A connection to etcd's HTTP gateway."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=10)

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._connection.request("POST", f"/v3/{path}", json.dumps(body))
        answer: dict[str, Any] = json.loads(self._connection.getresponse().read().splitlines()[0])
        if "error" in answer:
            raise OSError(str(answer))
        return answer


def lead_by_lease(ttl: str, name: str, address: str) -> None:
    etcd = Etcd(address)
    lease = etcd.call("lease/grant", {"TTL": int(ttl)})
    print(json.dumps({"ready": True, "ttl": int(lease["TTL"])}), flush=True)
    put = {"requestPut": {"key": KEY, "value": base64.b64encode(name.encode()).decode(), "lease": lease["ID"]}}
    absent = {"key": KEY, "target": "CREATE", "createRevision": "0"}
    renewed_s = time.monotonic()
    token = 0
    while True:
        if time.monotonic() - renewed_s > int(lease["TTL"]) / 3:
            renewed = etcd.call("lease/keepalive", {"ID": lease["ID"]})
            if int(renewed.get("result", {}).get("TTL", 0)) <= 0:
                return lead_by_lease(ttl, name, address)  # the lease has expired: stand again
            renewed_s = time.monotonic()
        if not token:
            answer = etcd.call("kv/txn", {"compare": [absent], "success": [put]})
            token = int(answer["header"]["revision"]) if answer.get("succeeded") else 0
        if token:
            write(token)
        time.sleep(BEAT_S if token else POLL_S)


if __name__ == "__main__":
    if sys.argv[1] == "antiphon":
        asyncio.run(lead(*sys.argv[2:]))
    else:
        lead_by_lease(*sys.argv[2:])
