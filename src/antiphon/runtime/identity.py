"""Who a node is: its key pair, its certificate, and whom it believes. In a file, as `antiphon ca issue` writes it:

    # antiphon identity 1: whoever can read this file can speak as alice
    name alice
    authority 5f…             the public key of the authority
    certificate 61…           of alice, by that authority
    key 9c…                   alice's private key
    entry 1 4f…               a key of the cluster, as in a keyring: it covers what is said before two processes know
                              each other, and connections (keyring.py)

Beside it may lie `revocations`, as `antiphon ca revoke` writes it. Nodes read both again when they change, and hand
later revocations to each other, so it is enough to give a list to one of them.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from antiphon.runtime.certificates import KEY_BYTES, Certificate, Revocations, read_certificate, read_revocations
from antiphon.runtime.errors import IdentityError, KeyringError, RightError
from antiphon.runtime.keyring import Keyring, file_stamp, parse_keyring, read_secret_file

FIRST_LINE: Final = "# antiphon identity 1: whoever can read this file can speak as"
REVOCATIONS: Final = "revocations"
_WORDS: Final = ("name", "authority", "certificate", "key", "entry")


@dataclass(frozen=True)
class Identity:
    """One process's own key and certificate. `entry` are the keys of the cluster."""

    certificate: Certificate
    authority: bytes
    key: Ed25519PrivateKey = field(repr=False)
    entry: Keyring

    @property
    def name(self) -> str:
        return self.certificate.name


def format_identity(identity: Identity) -> bytes:
    lines = [
        f"{FIRST_LINE} {identity.name}",
        f"name {identity.name}",
        f"authority {identity.authority.hex()}",
        f"certificate {identity.certificate.encoded.hex()}",
        f"key {identity.key.private_bytes_raw().hex()}",
        *(f"entry {key.epoch} {key.secret.hex()}" for key in identity.entry.keys),
    ]
    return ("\n".join(lines) + "\n").encode()


def parse_identity(text: str, file: str) -> Identity:
    """The identity that this text is; `file` is for errors, which never say what stands in a line."""
    found: dict[str, str] = {}
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        word, _, rest = line.strip().partition(" ")
        if not word or line.startswith("#"):
            continue
        if word not in _WORDS or not rest or word in found:
            raise IdentityError(f"{file}, line {number}: not a line of an identity, as written by `antiphon ca issue`")
        if word == "entry":
            entries.append(rest)
        else:
            found[word] = rest.strip()
    missing = [word for word in _WORDS[:-1] if word not in found]
    if missing or not entries:
        raise IdentityError(f"{file} is no identity: it has no {', '.join(missing) or 'entry'}")
    try:
        authority, key = bytes.fromhex(found["authority"]), bytes.fromhex(found["key"])
        encoded = bytes.fromhex(found["certificate"])
        entry = parse_keyring("\n".join(entries), f"the entry keys of {file}")
    except ValueError:
        raise IdentityError(f"{file} is no identity: a key is not in hexadecimal figures") from None
    except KeyringError as error:
        raise IdentityError(str(error)) from None
    certificate = read_certificate(encoded, authority) if len(authority) == KEY_BYTES else None
    if certificate is None or len(key) != KEY_BYTES:
        raise IdentityError(f"the certificate in {file} was not signed by its authority")
    private = Ed25519PrivateKey.from_private_bytes(key)
    if private.public_key().public_bytes_raw() != certificate.public or certificate.name != found["name"]:
        raise IdentityError(f"the certificate in {file} is not of its name and key")
    return Identity(certificate, authority, private, entry)


def load_identity(file: str | Path) -> Identity:
    """The identity in a file. Raises IdentityError if there is none, or others could have read or written it."""
    try:
        text = read_secret_file(Path(file), "identity").decode(errors="replace")
    except KeyringError as error:
        raise IdentityError(str(error)) from error.__cause__
    return parse_identity(text, str(file))


IdentitySource = str | Path | Identity
"""A file, which is read again when it changes, or the identity itself."""


class IdentitySupply:
    """The identity of one node with the revocations that it knows, and whether its files have others by now."""

    def __init__(self, source: IdentitySource, name: str, now_s: float | None = None) -> None:
        """Raises IdentityError if it cannot be used by the process `name`."""
        self._path = None if isinstance(source, Identity) else Path(source)
        self._name = name
        self._stamps = self._look_up()
        self.identity = source if isinstance(source, Identity) else load_identity(source)
        self.revocations = Revocations()
        self._check(self.identity, time.time() if now_s is None else now_s)
        self._load_revocations()

    def _check(self, identity: Identity, now_s: float) -> None:
        certificate = identity.certificate
        if certificate.name != self._name:
            raise IdentityError(
                f"process {self._name!r} cannot speak as {certificate.name!r}, whose certificate it was given; "
                f"`antiphon ca issue` makes one for {self._name!r}"
            )
        if certificate.until_s <= now_s:
            raise IdentityError(f"the certificate of {self._name!r} has run out; `antiphon ca issue` makes a new one")

    def _look_up(self) -> tuple[tuple[int, ...], ...]:
        if self._path is None:
            return ()
        return file_stamp(self._path), file_stamp(self._path.with_name(REVOCATIONS))

    def _load_revocations(self) -> None:
        if self._path is None:
            return
        file = self._path.with_name(REVOCATIONS)
        try:
            encoded = file.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise IdentityError(f"the revocations {file} cannot be read: {error.strerror or error}") from error
        if not self.take_revocations(encoded):
            raise IdentityError(f"{file} is no list of revocations that the authority of {self._name!r} has signed")

    def take_revocations(self, encoded: bytes) -> bool:
        """Use this list from now on if it is later than the one there is; whether the authority has signed it."""
        found = read_revocations(encoded, self.identity.authority)
        if found is None:
            return False
        if found.version > self.revocations.version:
            self.revocations = found
        return True

    def look(self, now_s: float) -> bool:
        """Read the files again if they have changed; whether they have. Raises IdentityError, once, if one is
        unusable: what there is stays."""
        stamps = self._look_up()
        if stamps == self._stamps:
            return False
        changed = stamps[0] != self._stamps[0]
        self._stamps = stamps
        assert self._path is not None
        if changed:
            identity = load_identity(self._path)
            self._check(identity, now_s)
            self.identity = identity
        self._load_revocations()
        return True

    def lacks(self, right: int, what: str) -> RightError | None:
        """Why this process may not do `what`, which takes this right; None if it may."""
        own = self.identity.certificate
        return None if own.may(right) else RightError(own.name, own.role, what)

    def demand(self, right: int, what: str) -> None:
        """Raise RightError if this process may not do `what`."""
        error = self.lacks(right, what)
        if error is not None:
            raise error

    def believe(self, encoded: bytes, now_s: float) -> Certificate | None:
        """A certificate that holds now, or None."""
        certificate = read_certificate(encoded, self.identity.authority)
        return certificate if certificate is not None and self.holds(certificate, now_s) else None

    def holds(self, certificate: Certificate, now_s: float) -> bool:
        """Whether a certificate that was read before has neither run out nor been revoked."""
        return certificate.until_s > now_s and not self.revocations.has(certificate)
