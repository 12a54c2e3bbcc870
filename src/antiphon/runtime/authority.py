"""The authority of a cluster: a directory, kept where no member runs, that `antiphon ca` works on.

    authority       its private key: whoever has it can make members
    entry.key       the keyring of the cluster, which goes into each identity
    issued          one line for each certificate: serial, until when (seconds since 1970), role, name
    revocations     the list of what was taken back, signed; copied beside the identities of members
    NAME.identity   for each name, what its machine is given

Each file is written beside its place and moved there. `issued` is written before the certificate leaves, so that no
serial is used twice, whatever breaks off.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from antiphon.kernel.identity import is_name
from antiphon.runtime.certificates import KEY_BYTES, ROLES, Revocations, issue, read_revocations, revoke
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import IdentityError, KeyringError
from antiphon.runtime.identity import REVOCATIONS, Identity, format_identity
from antiphon.runtime.keyring import Keyring, create_keyring, load_keyring, read_secret_file, write_secret_file

DAYS: Final = 365
DAY_S: Final = 86_400
_KEY: Final = "authority"
_ENTRY: Final = "entry.key"
_ISSUED: Final = "issued"
_FIRST_LINE: Final = "# antiphon authority 1: whoever can read this file can make members"


@dataclass(frozen=True)
class IssuedCertificate:
    """One line of what an authority has issued."""

    serial: int
    until_s: int
    role: str
    name: str
    is_revoked: bool = False


class Authority:
    """One directory. Every method raises IdentityError where the directory is not as it should be."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        try:
            text = read_secret_file(self.directory / _KEY, "authority").decode(errors="replace")
        except KeyringError as error:
            raise IdentityError(f"{error}; `antiphon ca new {directory}` makes an authority") from error.__cause__
        try:
            seed = bytes.fromhex("".join(line for line in text.splitlines() if not line.startswith("#")).strip())
        except ValueError:
            seed = b""
        if len(seed) != KEY_BYTES:
            raise IdentityError(f"{self.directory / _KEY} is not the key of an authority")
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._key.public_key().public_bytes_raw()

    @property
    def entry(self) -> Keyring:
        return load_keyring(self.directory / _ENTRY)

    def revocations(self) -> Revocations:
        file = self.directory / REVOCATIONS
        found = read_revocations(file.read_bytes(), self.public) if file.exists() else Revocations()
        if found is None:
            raise IdentityError(f"{file} was not signed by the authority in {self.directory}")
        return found

    def issued(self) -> list[IssuedCertificate]:
        """All certificates that were ever issued, the oldest first."""
        file = self.directory / _ISSUED
        if not file.exists():
            return []
        revoked = self.revocations().serials
        result = []
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            words = line.split(" ", 3)
            if len(words) != 4 or not words[0].isdecimal() or not words[1].isdecimal() or words[2] not in ROLES:
                raise IdentityError(f"{file}, line {number}: not a line as written by `antiphon ca issue`")
            serial = int(words[0])
            result.append(IssuedCertificate(serial, int(words[1]), words[2], words[3], serial in revoked))
        return result

    def issue(self, name: str, role: str = "member", days: int = DAYS) -> Path:
        """Make a key and a certificate for a name; the file, which replaces an earlier one of that name. Its earlier
        certificates hold as before: `revoke` first to end them."""
        if not is_name(name) or "/" in name or name.startswith("."):
            raise IdentityError(f"{name!r} cannot be the name of a process and of a file; choose another")
        if role not in ROLES:
            raise IdentityError(f"there is no role {role!r}; the roles are: {', '.join(ROLES)}")
        if not 0 < days <= 100_000:
            raise IdentityError(f"a certificate lasts for 1 to 100,000 days, not {days}")
        machine = current_environment()
        until_s = machine.time_ns() // 10**9 + days * DAY_S
        before = self.issued()
        serial = max((one.serial for one in before), default=0) + 1
        self._note(before, IssuedCertificate(serial, until_s, role, name))
        key = Ed25519PrivateKey.from_private_bytes(machine.token_bytes(KEY_BYTES))
        certificate = issue(self._key, serial, name, until_s, ROLES[role], key.public_key().public_bytes_raw())
        file = self.directory / f"{name}.identity"
        write_secret_file(file, format_identity(Identity(certificate, self.public, key, self.entry)), new=False)
        return file

    def _note(self, before: list[IssuedCertificate], added: IssuedCertificate) -> None:
        lines = [f"{one.serial} {one.until_s} {one.role} {one.name}\n" for one in [*before, added]]
        write_secret_file(self.directory / _ISSUED, "".join(lines).encode(), new=False)

    def revoke(self, name: str) -> Revocations:
        """Take back all certificates that a name has."""
        serials = {one.serial for one in self.issued() if one.name == name}
        if not serials:
            raise IdentityError(
                f"no certificate was ever issued for {name!r}; `antiphon ca show` lists those there are"
            )
        before = self.revocations()
        if serials <= before.serials:
            raise IdentityError(f"all certificates of {name!r} are revoked already")
        after = revoke(self._key, before.version + 1, before.serials | serials)
        write_secret_file(self.directory / REVOCATIONS, after.encoded, new=False)
        return after


def create_authority(directory: str | Path) -> Authority:
    """Make an authority in a directory, which is made if need be. Raises IdentityError if one is there."""
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    seed = current_environment().token_bytes(KEY_BYTES)
    if not (path / _ENTRY).exists():
        create_keyring(path / _ENTRY)
    try:
        write_secret_file(path / _KEY, f"{_FIRST_LINE}\n{seed.hex()}\n".encode(), new=True)
    except FileExistsError:
        raise IdentityError(f"{path} has an authority already; `antiphon ca show {path}` says what it issued") from None
    return Authority(path)
