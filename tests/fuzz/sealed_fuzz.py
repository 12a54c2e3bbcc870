"""Bad bytes into every decoder that stands between the network and the engine, sealed by a key, between identities, and
in files: nothing raises but what it says it raises, and memory stays flat.

    python -m tests.fuzz.sealed_fuzz --datagrams 1000000 --seed 0

Most inputs are real ones, changed: a fuzzer that only throws noise never comes past the first check. Those that an
insider would send are sealed again after they were changed, with keys that it has by right.
"""

import argparse
import contextlib
import json
import resource
from random import Random

from antiphon.kernel.errors import MalformedError
from antiphon.parts.membership.messages import CHUNK, chunk_kind
from antiphon.parts.membership.proofs import decode_proofs, encode_proofs
from antiphon.runtime.authorship import find_author
from antiphon.runtime.certificates import read_certificate, read_revocations
from antiphon.runtime.errors import IdentityError, KeyringError
from antiphon.runtime.identity import format_identity, parse_identity
from antiphon.runtime.keyring import parse_keyring
from antiphon.runtime.pair_seal import HELLO
from antiphon.runtime.seal import GREETING, PACKET
from tests.runtime.identity_table import PUBLIC, data, identity, revoked, status, table
from tests.runtime.seal_table import Table, ring


class SealedFuzzer:
    """Processes at two tables, sealed by a shared key and between identities, and samples of all that they read."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pairs = table("alice", "bob", "carol")
        self.pairs.seats["bob"].send([data(b"sample"), status()], "alice", "carol")
        self.shared = Table("ab")
        self.shared.meet()
        self.shared.say("b", b"a packet", "a")
        self.datagrams = [one for _, one, _ in self.pairs.captured] + [one for _, one in self.shared.captured]
        self.plain = [b"\0" + status(), *self._marked(), b"\3" + revoked("dave").encoded, bytes(90)]
        self.certificates = [identity(name).certificate.encoded for name in ("alice", "bob")]
        self.lists = [revoked("alice", "bob").encoded, revoked().encoded]
        self.proofs = [encode_proofs({0: bytes(64), 2: b"x"}), encode_proofs({1: b"y"})]
        self.texts = [format_identity(identity("alice")), b"1 " + bytes(32).hex().encode() + b"\n"]

    def _marked(self) -> list[bytes]:
        bob = self.pairs.seats["bob"].seal
        return [bob._with_mark(data(b"own")), b"\2" + bob._with_mark(data(b"own"))[1:]]

    def spoil(self, samples: list[bytes]) -> bytes:
        """One of these, changed."""
        random = self.random
        made = bytearray(random.choice(samples))
        choice = random.random()
        if choice < 0.1:
            return random.randbytes(random.randrange(400))
        if choice < 0.3:
            return bytes(made[: random.randrange(len(made) + 1)])
        if choice < 0.45:
            other = random.choice(samples)
            return bytes(made[: random.randrange(len(made) + 1)]) + other[random.randrange(len(other) + 1) :]
        for _ in range(random.choice((1, 1, 2, 5))):
            if made:
                made[random.randrange(len(made))] = random.choice((0, 1, 127, 255, random.randrange(256)))
        return bytes(made)

    def throw(self) -> None:
        """One bad input into each decoder. Raises what must not be raised."""
        self.pairs.now_s += 0.01
        self.shared.now_s += 0.01
        alice, bob = self.pairs.seats["alice"], self.pairs.seats["bob"]
        outside = self.spoil(self.datagrams)
        alice.receive(outside, ("eve", 666))
        self.shared.seats["a"].receive([outside], ("eve", 666), self.random.choice((GREETING, PACKET, 2, 3)))
        inside = self.spoil(self.plain)
        peer = bob.seal._by_name.get("alice")
        if peer is not None:
            alice.receive(peer.seal(inside), bob.address)
        if self.random.random() < 0.5:
            inside = inside[:1] + alice.seal.life + inside[1:]
        alice.receive(bob.seal._entry(inside, self.random.choice((GREETING, HELLO)), ring(1).newest), bob.address)
        sealed = self.shared.seats["b"].seal.seal([inside], self.random.choice((GREETING, PACKET)))
        self.shared.seats["a"].receive(sealed, ("b", 7400))
        read_certificate(self.spoil(self.certificates), PUBLIC)
        read_revocations(self.spoil(self.lists), PUBLIC)
        find_author(data(), inside, alice.seal.life, alice.seal._met.get, lambda encoded: None)
        chunk_kind(CHUNK, self.spoil(self.plain))
        self._read_files()
        alice.taken.clear()
        self.shared.seats["a"].taken.clear()
        self.pairs.captured.clear()
        self.shared.captured.clear()

    def _read_files(self) -> None:
        with contextlib.suppress(MalformedError):
            decode_proofs(self.spoil(self.proofs))
        text = self.spoil(self.texts).decode(errors="replace")
        with contextlib.suppress(IdentityError):
            parse_identity(text, "a file")
        with contextlib.suppress(KeyringError):
            parse_keyring(text, "a file")

    def check(self) -> None:
        """Those that keep to the rules still understand each other."""
        self.pairs.now_s += 1
        alice, bob = self.pairs.seats["alice"], self.pairs.seats["bob"]
        for _ in range(2):
            bob.send([status(b"still here")], "alice")
            self.pairs.now_s += 1
        assert ("bob", status(b"still here")) in alice.taken
        assert len(alice.seal._met) <= 3
        assert len(alice.seal._asked) <= 256


def fuzz(datagrams: int, seed: int) -> dict[str, int]:
    """Throw so many at each decoder; how much memory it took, at the end and after a tenth of it."""
    fuzzer = SealedFuzzer(seed)
    early_kib = 0
    for number in range(datagrams):
        fuzzer.throw()
        if number == datagrams // 10:
            early_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fuzzer.check()
    late_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"datagrams": datagrams, "decoders": 11, "early_kib": early_kib, "late_kib": late_kib}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datagrams", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(json.dumps(fuzz(arguments.datagrams, arguments.seed)))


if __name__ == "__main__":
    main()
