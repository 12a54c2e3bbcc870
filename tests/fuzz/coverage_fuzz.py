"""Coverage-guided fuzzing of the decoders, by atheris, where that is installed (`pip install atheris`).

    python -m tests.fuzz.coverage_fuzz seal -max_total_time=60
    python -m tests.fuzz.coverage_fuzz engine -atheris_runs=1000000

What is fuzzed: `seal` (packets sealed between identities, as an insider seals them, and entry packets), `files`
(identities, keyrings, certificates, revocations, proofs), `engine` (packets of all stacks into an engine that is in a
group). libFuzzer's own options follow. The plain-Python core is fuzzed: set ANTIPHON_PURE=1.
"""

import contextlib
import sys
from collections.abc import Callable
from random import Random

import atheris

with atheris.instrument_imports(include=["antiphon"]):
    from antiphon.engine import Engine
    from antiphon.kernel.codec import seal
    from antiphon.kernel.errors import MalformedError
    from antiphon.kernel.identity import ProcessId, View, wire_id
    from antiphon.kernel.inputs import Join, Receive
    from antiphon.kernel.options import Options
    from antiphon.parts.membership.proofs import decode_proofs
    from antiphon.runtime.certificates import read_certificate, read_revocations
    from antiphon.runtime.errors import IdentityError, KeyringError
    from antiphon.runtime.identity import parse_identity
    from antiphon.runtime.keyring import parse_keyring
    from antiphon.runtime.pair_seal import HELLO
    from antiphon.runtime.seal import GREETING
    from antiphon.stacks.registry import OFFERS
    from tests.runtime.identity_table import PUBLIC, table
    from tests.runtime.seal_table import ring


def fuzz_seal() -> Callable[[bytes], None]:
    at = table("alice", "bob", "carol")
    alice, bob = at.seats["alice"], at.seats["bob"]

    def one(made: bytes) -> None:
        at.now_s += 0.01
        alice.receive(made, ("eve", 666))
        peer = bob.seal._by_name.get("alice")
        if peer is not None:
            alice.receive(peer.seal(made), bob.address)
        for kind in (GREETING, HELLO):
            alice.receive(bob.seal._entry(made[:1] + alice.seal.life + made[1:], kind, ring(1).newest), bob.address)
        alice.taken.clear()
        at.captured.clear()
        assert len(alice.seal._asked) <= 256

    return one


def fuzz_files() -> Callable[[bytes], None]:
    def one(made: bytes) -> None:
        read_certificate(made, PUBLIC)
        read_revocations(made, PUBLIC)
        text = made.decode(errors="replace")
        for parse in (parse_identity, parse_keyring):
            with contextlib.suppress(IdentityError, KeyringError):
                parse(text, "a file")
        with contextlib.suppress(MalformedError):
            decode_proofs(made)

    return one


def fuzz_engine() -> Callable[[bytes], None]:
    options = Options()
    now_ns = 0
    stacks = [offers for offers in OFFERS.values() if not offers.service_role]
    engines = []
    for offers in stacks:
        engine = Engine(ProcessId("b", 1), Random(1), options)
        view = View(1, tuple(ProcessId(name, 1) for name in "abc"), tuple("abc"))
        engine.step(Join(group="g", stack=offers.name, view=view, policy="primary", address="b"), 0)
        engines.append((offers.number, engine))

    def one(made: bytes) -> None:
        nonlocal now_ns
        now_ns += 1000
        if len(made) < 12:
            return
        for number, engine in engines:
            tag = int.from_bytes(made[4:12], "little")
            packet = seal(number, made[0] % 16, wire_id("g"), tag, made[1] % 4, made[2], made[3] % 6, [made[12:]])
            engine.step(Receive([packet], ["abc"[made[1] % 3]]), now_ns)
            engine.step(Receive([made]), now_ns)

    return one


TARGETS = {"seal": fuzz_seal, "files": fuzz_files, "engine": fuzz_engine}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        raise SystemExit(f"name one of: {', '.join(TARGETS)}")
    one = TARGETS[sys.argv.pop(1)]()
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
