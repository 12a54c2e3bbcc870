"""Keyrings: files with the keys that the processes of a cluster share.

    # antiphon keyring 1: whoever can read this file can read and forge all packets
    1 4f1c…e0                  the number of a key, its epoch, and 32 random bytes in figures
    2 9ab0…17

All keys that stand in the file are accepted; which one is used is decided in seal.py. Rotation: a key is added
(`add_key`), the file is copied to all, the nodes read it again by themselves, and when all have it, the former keys are
taken out (`retire_keys`). Each step leaves a file that works with the one before, so it may be broken off anywhere and
gone on with. A key that others may know is taken out at once, and nothing of the new one is ever sent under it
(`replace_keys`).

A file is written beside its place and moved there, readable by its owner alone. One that all may read, or that
others may write, is refused.
"""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkstemp
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import KeyringError

SECRET_BYTES: Final = 32
TAG_BYTES: Final = 4
EPOCH_MAX: Final = 2**16 - 1
KEYS_MAX: Final = 16
FILE_BYTES_MAX: Final = 16 * 1024
UNSAFE_MODE: Final = stat.S_IWGRP | stat.S_IRWXO
"""Rights that nobody but the owner may have: a group may read, as mounted secrets of containers are read."""
FIRST_LINE: Final = "# antiphon keyring 1: whoever can read this file can read and forge all packets"


def expand(secret: bytes, purpose: bytes) -> bytes:
    """32 bytes that follow from `secret`, independent of those for any other purpose."""
    return HKDFExpand(SHA256(), 32, b"antiphon 1 " + purpose).derive(secret)


@dataclass(frozen=True)
class SharedKey:
    """One key. Its tag, four bytes that tell nothing about it, stands on each packet that it seals."""

    epoch: int
    secret: bytes = field(repr=False)
    tag: bytes = b""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tag", expand(self.secret, b"tag")[:TAG_BYTES])


class Keyring:
    """Keys in the order of their epochs, at least one."""

    def __init__(self, keys: Sequence[SharedKey]) -> None:
        self.keys = tuple(sorted(keys, key=lambda key: key.epoch))
        self.by_tag = {key.tag: key for key in self.keys}
        if not 0 < len(self.keys) <= KEYS_MAX:
            raise KeyringError(f"a keyring has 1 to {KEYS_MAX} keys, not {len(self.keys)}")
        if len(self.by_tag) < len(self.keys) or len({key.epoch for key in self.keys}) < len(self.keys):
            raise KeyringError("two keys of a keyring have the same number, or are the same")

    @property
    def newest(self) -> SharedKey:
        return self.keys[-1]

    def __repr__(self) -> str:
        return f"<Keyring of the keys {', '.join(str(key.epoch) for key in self.keys)}>"


def draw_key(epoch: int, among: Sequence[SharedKey], draw: Callable[[int], bytes] | None = None) -> SharedKey:
    """A new key, whose tag none of those has."""
    draw = draw or current_environment().token_bytes
    while True:
        key = SharedKey(epoch, draw(SECRET_BYTES))
        if all(key.tag != other.tag for other in among):
            return key


def parse_keyring(text: str, name: str) -> Keyring:
    """The keyring that this text is; `name` is for errors, which never say what stands in a line."""
    keys = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            epoch, secret = int(words[0]), bytes.fromhex(words[1])
        except (ValueError, IndexError):
            epoch, secret = 0, b""
        if len(words) != 2 or not 0 < epoch <= EPOCH_MAX or len(secret) != SECRET_BYTES:
            raise KeyringError(
                f"{name}, line {number}: a key is its number and {2 * SECRET_BYTES} hexadecimal figures, as written by "
                "`antiphon key new`"
            )
        keys.append(SharedKey(epoch, secret))
    try:
        return Keyring(keys)
    except KeyringError as error:
        raise KeyringError(f"{name}: {error}") from None


def load_keyring(file: str | Path) -> Keyring:
    """The keyring in a file. Raises KeyringError if there is none, or others could have read or written it."""
    return parse_keyring(read_secret_file(Path(file), "keyring").decode(errors="replace"), str(file))


def read_secret_file(path: Path, what: str) -> bytes:
    """The bytes of a file that nobody else may have read or written. Raises KeyringError."""
    try:
        with path.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise KeyringError(f"the {what} {path} cannot be read: {error.strerror or error}") from error
    if mode & UNSAFE_MODE:
        raise KeyringError(f"others can read or change the {what} {path}; chmod 600 it, and rotate it if they did")
    if len(data) > FILE_BYTES_MAX:
        raise KeyringError(f"{path} is too long for a{'n' if what[0] in 'aeiou' else ''} {what}")
    return data


def _format(keyring: Keyring) -> bytes:
    lines = [FIRST_LINE, *(f"{key.epoch} {key.secret.hex()}" for key in keyring.keys)]
    return ("\n".join(lines) + "\n").encode()


def write_secret_file(path: Path, data: bytes, *, new: bool) -> None:
    """Write a file that only its owner can read, whole or not at all. With `new`, FileExistsError if it is there."""
    handle, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with rights for the owner alone
    beside = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if new:
            os.link(beside, path)  # unlike a move, this fails if something is there
        else:
            os.replace(beside, path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    finally:
        beside.unlink(missing_ok=True)


def create_keyring(file: str | Path) -> Keyring:
    """Write a file with one new key. Raises KeyringError if something is there."""
    keyring = Keyring([draw_key(1, ())])
    try:
        write_secret_file(Path(file), _format(keyring), new=True)
    except FileExistsError:
        raise KeyringError(f"{file} is there already; `antiphon key rotate {file}` adds a key to a keyring") from None
    return keyring


def add_key(file: str | Path) -> Keyring:
    """Add a new key to a file: the first step of a rotation."""
    keyring = load_keyring(file)
    if len(keyring.keys) == KEYS_MAX:
        raise KeyringError(f"{file} has {KEYS_MAX} keys; `antiphon key retire {file}` takes out all but the newest")
    added = Keyring([*keyring.keys, _next_key(keyring)])
    write_secret_file(Path(file), _format(added), new=False)
    return added


def retire_keys(file: str | Path) -> Keyring:
    """Take out all keys but the newest: the last step of a rotation, when all nodes have that one."""
    return _keep(file, Keyring([load_keyring(file).newest]))


def replace_keys(file: str | Path) -> Keyring:
    """Take out all keys, because others may know them, and put a new one in their place."""
    return _keep(file, Keyring([_next_key(load_keyring(file))]))


def _keep(file: str | Path, keyring: Keyring) -> Keyring:
    write_secret_file(Path(file), _format(keyring), new=False)
    return keyring


def _next_key(keyring: Keyring) -> SharedKey:
    if keyring.newest.epoch == EPOCH_MAX:
        raise KeyringError(f"there is no number after {EPOCH_MAX} for a key; begin a new keyring")
    return draw_key(keyring.newest.epoch + 1, keyring.keys)


KeySource = str | Path | Keyring
"""A file, which is read again when it changes, or the keys themselves."""


class KeySupply:
    """The keys of one node, and whether its file has others by now."""

    def __init__(self, source: KeySource) -> None:
        self._path = None if isinstance(source, Keyring) else Path(source)
        self._stamp: tuple[int, ...] = ()
        self.keyring = source if isinstance(source, Keyring) else self._load(Path(source))

    @property
    def has_file(self) -> bool:
        return self._path is not None

    def _load(self, path: Path) -> Keyring:
        self._stamp = file_stamp(path)
        return load_keyring(path)

    def look(self) -> None:
        """Read the file again if it has changed. Raises KeyringError, once, if it is unusable: the former keys stay."""
        if self._path is not None and file_stamp(self._path) != self._stamp:
            self.keyring = self._load(self._path)


def file_stamp(path: Path) -> tuple[int, ...]:
    """What changes when a file does."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode)
