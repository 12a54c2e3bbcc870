"""Many rotations of a shared key under load, with crashes between any two steps, in virtual time.

    python -m tests.runtime.rotations --rotations 1000 --seed 0

One rotation: a key is added; the file reaches the members one by one; the former keys are taken out; the file reaches
the members again. Each step of the operator may break off, leaving the temporary file that it was writing, and is then
done again. Now and then a member is killed at any point and comes back with the file that it has at that moment. Every
message of a life that goes on must be delivered, in order, to all that go on, and nobody may be shut out: members that
were not killed never see a view without one that was not.
"""

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from random import Random

import antiphon
from antiphon.runtime.keyring import add_key, create_keyring, load_keyring, retire_keys
from antiphon.testing import FaultPlan, Host, KillProgram, simulate
from antiphon.testing.host import Main
from tests.runtime.test_sealed_transport import DELAY, FAST, GROUP, SECOND_NS, copy_keys

ROTATION_S = 6.0
NAMES = "abc"


def talker(directory: Path, life_s: float) -> Main:
    async def main(host: Host) -> tuple[list[str], int, int, int]:
        """Talk without end; what was read, how many views there were, what was sent, and the epoch at the end."""
        others = {name: f"{host.addresses[name]}:7400" for name in NAMES}
        read: list[str] = []
        sent = views = 0
        node = antiphon.Node(
            host.name, address=host.at(), incarnation=host.starts, options=FAST, linger_s=1.0,
            keyring=directory / f"{host.name}.key",
        )  # fmt: skip
        async with node:
            if host.starts == 1:
                group = await node.join(GROUP, members=others)
            else:
                contacts = [at for name, at in others.items() if name != host.name]
                group = await node.join(GROUP, contacts=contacts, timeout_s=60)

            async def speak() -> None:
                nonlocal sent
                while asyncio.get_running_loop().time() < life_s:
                    await group.send(f"{host.name}{host.starts} {sent}".encode(), order="agreed")
                    sent += 1
                    await asyncio.sleep(0.5)

            speaking = asyncio.create_task(speak())
            ending = asyncio.create_task(host.ending.wait())
            reader = group.__aiter__()
            while not ending.done():
                reading = asyncio.ensure_future(anext(reader))
                await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    break
                event = reading.result()
                if isinstance(event, antiphon.Message):
                    read.append(event.payload.decode())
                views += isinstance(event, antiphon.ViewChange)
            speaking.cancel()
            epoch = node.statistics()["key_epoch"]
        return read, views, sent, epoch

    return main


def operator(directory: Path, rotations: int, random: Random) -> Main:
    file = directory / "antiphon.key"

    def broken_off() -> None:
        """What a crash in the middle of writing leaves behind."""
        if random.random() < 0.3:
            (directory / f".antiphon.key.{random.randrange(10**6)}").write_bytes(b"1 00")

    async def main(host: Host) -> int:
        for _ in range(rotations):
            before = load_keyring(file).newest.epoch
            broken_off()
            while load_keyring(file).newest.epoch == before:  # an operator that finds it undone does it again
                add_key(file)
            for step in range(2):
                for name in random.sample(NAMES, len(NAMES)):
                    await asyncio.sleep(random.uniform(0.05, 0.6))
                    broken_off()
                    copy_keys(directory, name)
                if not step:
                    await asyncio.sleep(1.2)  # nodes look at their files once a second
                    retire_keys(file)
            await asyncio.sleep(ROTATION_S - 5.0)
        await host.ending.wait()
        return rotations

    return main


def campaign(rotations: int, seed: int, kills: int | None = None) -> dict[str, int]:
    """Rotate so often; what happened. Raises AssertionError if a message was lost or somebody was shut out."""
    random = Random(seed)
    life_s = rotations * ROTATION_S + 5
    times = max(0, rotations // 4) if kills is None else kills
    step_s = life_s / (times + 1)
    plan = [
        KillProgram("c", int((step_s * (at + random.uniform(0.3, 0.9))) * 1e9), restart_ns=SECOND_NS // 2)
        for at in range(times)
    ]
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        create_keyring(directory / "antiphon.key")
        for name in NAMES:
            copy_keys(directory, name)
        mains = {name: talker(directory, life_s) for name in NAMES}
        mains["ops"] = operator(directory, rotations, random)
        result = simulate(mains, seed=seed, faults=FaultPlan(DELAY, plan, int(life_s * 1e9)))
        epoch = load_keyring(directory / "antiphon.key").newest.epoch
    assert result.kept, result.report("")
    assert epoch == rotations + 1
    for name in "ab":
        read, views, _, used = result.returned[name]
        assert views == 1 + 2 * times, f"{name} saw {views} views"
        assert used == epoch
        for sender in "ab":
            said = [text for text in read if text.startswith(sender)]
            assert said == [f"{sender}1 {number}" for number in range(result.returned[sender][2])]
    return {"rotations": rotations, "kills": times, "messages": sum(result.returned[name][2] for name in "ab")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rotations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(json.dumps(campaign(arguments.rotations, arguments.seed)))


if __name__ == "__main__":
    main()
