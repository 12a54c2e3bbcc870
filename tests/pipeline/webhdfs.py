"""A small WebHDFS server that keeps its files in memory: a Hadoop file system that no Python code can open by path.

What Hadoop's own client asks for when Spark lists, reads and writes: the operations of the WebHDFS REST API on files
and folders, in the two steps of that API where bytes travel (a redirect first, as from a name node to a data node).
No permissions, no replication, one user. It listens on loopback and ends with its context.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

LOOPBACK: Final = "127.0.0.1"
PREFIX: Final = "/webhdfs/v1"
BLOCK_BYTES: Final = 128 * 2**20


class Store:
    """Files and folders by path; a folder holds None."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: dict[str, bytes | None] = {"/": None}
        self.times_ms: dict[str, int] = {}
        self.opened = 0
        """How many times a file was read."""
        self.withheld: set[str] = set()
        """Files that are listed and cannot be read."""

    def put(self, path: str, data: bytes | None) -> None:
        """Write a file, or make a folder, with all folders above it."""
        above = path.rsplit("/", 1)[0]
        if above and above not in self.entries:
            self.put(above, None)
        self.entries[path] = data
        self.times_ms[path] = int(time.time() * 1000)

    def below(self, path: str) -> list[str]:
        return [name for name in self.entries if name.startswith(path.rstrip("/") + "/") and name != "/"]

    def children(self, path: str) -> list[str]:
        depth = len(path.rstrip("/")) + 1
        return sorted(name for name in self.below(path) if "/" not in name[depth:])

    def status(self, path: str, suffix: str) -> dict[str, Any]:
        data = self.entries[path]
        times = {"accessTime": 0, "modificationTime": self.times_ms.get(path, 0)}
        kind = {"type": "DIRECTORY", "length": 0} if data is None else {"type": "FILE", "length": len(data)}
        owner = {"owner": "test", "group": "test", "permission": "755"}
        more = {"pathSuffix": suffix, "blockSize": BLOCK_BYTES, "replication": 1, "fileId": 1, "childrenNum": 0}
        return times | kind | owner | more

    def rename(self, old: str, new: str) -> bool:
        if self.entries.get(new, b"") is None:  # into a folder
            new = f"{new.rstrip('/')}/{old.rsplit('/', 1)[-1]}"
        if old not in self.entries or new in self.entries:
            return False
        for path in [old, *self.below(old)]:
            self.put(new + path[len(old) :], self.entries.pop(path))
        return True

    def delete(self, path: str) -> bool:
        if path not in self.entries:
            return False
        for name in [*self.below(path), path]:
            del self.entries[name]
        return True


class Handler(BaseHTTPRequestHandler):
    """One request; `server.store` has the files."""

    protocol_version = "HTTP/1.1"
    store: Store

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        path, asked = self._asked()
        with self.store.lock:
            if asked["op"] == "OPEN" and "step" in asked:
                self.store.opened += 1
            found = self.store.entries.get(path, b"") if path in self.store.entries else NOWHERE
            if asked["op"] in ("GETDELEGATIONTOKEN", "GETSERVERDEFAULTS"):
                return self._answer({"Token": None} if asked["op"] == "GETDELEGATIONTOKEN" else DEFAULTS)
            if found is NOWHERE:
                return self._missing(path)
            if asked["op"] == "GETFILESTATUS":
                return self._answer({"FileStatus": self.store.status(path, "")})
            if asked["op"] == "LISTSTATUS":
                return self._answer({"FileStatuses": {"FileStatus": self._listed(path, found)}})
            if asked["op"] == "GETFILEBLOCKLOCATIONS":
                return self._answer({"BlockLocations": {"BlockLocation": []}})
            if asked["op"] == "GET_BLOCK_LOCATIONS":
                return self._answer({"LocatedBlocks": None})
        if asked["op"] != "OPEN" or not isinstance(found, bytes) or path in self.store.withheld:
            return self._refuse(f"{asked['op']} of {path}")
        if "step" not in asked:
            return self._redirect()
        first = int(asked.get("offset", 0))
        end = first + int(asked["length"]) if "length" in asked else len(found)
        return self._send(HTTPStatus.OK, found[first:end])

    def do_PUT(self) -> None:
        path, asked = self._asked()
        body = self._body()
        if asked["op"] == "CREATE":
            if "step" not in asked:
                return self._redirect()
            with self.store.lock:
                if self.store.entries.get(path) is not None and asked.get("overwrite") != "true":
                    return self._error(HTTPStatus.FORBIDDEN, "FileAlreadyExistsException", f"{path} exists")
                self.store.put(path, body)
            return self._send(HTTPStatus.CREATED, b"")
        with self.store.lock:
            if asked["op"] == "MKDIRS":
                self.store.put(path, None)
                return self._answer({"boolean": True})
            if asked["op"] == "RENAME":
                return self._answer({"boolean": self.store.rename(path, asked["destination"])})
            if asked["op"] in ("SETPERMISSION", "SETTIMES", "SETOWNER"):
                return self._send(HTTPStatus.OK, b"")
        return self._refuse(f"{asked['op']} of {path}")

    def do_DELETE(self) -> None:
        path, _ = self._asked()
        with self.store.lock:
            done = self.store.delete(path)
        self._answer({"boolean": done})

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        words = {name: values[0] for name, values in parse_qs(parts.query).items()}
        words["op"] = words.get("op", "").upper()
        return unquote(parts.path).removeprefix(PREFIX).rstrip("/") or "/", words

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _listed(self, path: str, found: object) -> list[dict[str, Any]]:
        if found is not None:
            return [self.store.status(path, "")]
        return [self.store.status(child, child.rsplit("/", 1)[-1]) for child in self.store.children(path)]

    def _redirect(self) -> None:
        self.send_response(HTTPStatus.TEMPORARY_REDIRECT)
        self.send_header("Location", f"http://{self.headers['Host']}{self.path}&step=2")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, document: dict[str, Any]) -> None:
        self._send(HTTPStatus.OK, json.dumps(document).encode())

    def _missing(self, path: str) -> None:
        self._error(HTTPStatus.NOT_FOUND, "FileNotFoundException", f"File does not exist: {path}")

    def _refuse(self, what: str) -> None:
        self._error(HTTPStatus.BAD_REQUEST, "UnsupportedOperationException", f"not here: {what}")

    def _error(self, code: HTTPStatus, name: str, text: str) -> None:
        package = "java.io." if name.startswith("File") and name != "FileAlreadyExistsException" else ""
        package = package or ("org.apache.hadoop.fs." if name.startswith("File") else "java.lang.")
        words = {"exception": name, "javaClassName": package + name, "message": text}
        self._send(code, json.dumps({"RemoteException": words}).encode())

    def _send(self, code: HTTPStatus, data: bytes) -> None:
        """Without a type of content: to read one, Hadoop's client needs a class that Spark does not bring along."""
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


NOWHERE: Final = object()
DEFAULTS: Final = {
    "FsServerDefaults": {
        "blockSize": BLOCK_BYTES,
        "bytesPerChecksum": 512,
        "writePacketSize": 65536,
        "replication": 1,
        "fileBufferSize": 4096,
        "encryptDataTransfer": False,
        "trashInterval": 0,
        "checksumType": 2,
        "keyProviderUri": "",
        "defaultStoragePolicyId": 7,
    }
}


@contextmanager
def webhdfs(store: Store) -> Iterator[str]:
    """The root of a server, as a URI, while in context."""
    handler = type("StoreHandler", (Handler,), {"store": store})
    server = ThreadingHTTPServer((LOOPBACK, 0), handler)
    thread = threading.Thread(target=server.serve_forever, name="webhdfs", daemon=True)
    thread.start()
    try:
        yield f"webhdfs://{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def upload(store: Store, folder: Path, path: str) -> None:
    """All files of a folder of this machine."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            store.put(f"{path}/{file.relative_to(folder)}", file.read_bytes())
