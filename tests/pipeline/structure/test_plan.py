"""The plan: what is written can be read, means the same to the runtime, and is refused where it was made wrong."""

import asyncio
import tomllib
from pathlib import Path
from random import Random

import pytest

import antiphon
from antiphon.pipeline.structure.finding import plan_structure
from antiphon.pipeline.structure.plan import plan_text
from antiphon.pipeline.structure.traffic import Traffic
from tests.pipeline.structure.traffic_samples import OFFICE, draw_members, traffic_of

STRANGE = 'a "quoted" \\ group\n\t\x00\x1f\x7f é 🎻 \u2028'


def office() -> Traffic:
    return traffic_of({group: frozenset(names) for group, names in OFFICE.items()}, Random(1))


def write(path: Path, traffic: Traffic) -> Path:
    file = path / "plan.toml"
    file.write_text(plan_text(plan_structure(traffic)))
    return file


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_comes_back_as_it_was_made(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    traffic = traffic_of(draw_members(random, random.randint(1, 12), random.randint(2, 12)), random)
    structure = plan_structure(traffic, random.choice((None, 2)))
    (tmp_path / "plan.toml").write_text(plan_text(structure))
    plan = antiphon.load_plan(tmp_path / "plan.toml")
    assert {name: frozenset(group.members) for name, group in plan.groups.items()} == traffic.members
    for part in structure.graph.connected:
        pairs = {(overlap.first, overlap.second) for overlap in structure.graph.overlaps if overlap.first in part}
        for group in part:
            assert plan.domain(group) == plan.domain(part[0])
            assert set(plan.domain(group).overlaps) == pairs
    for sequencer in structure.sequencers:
        for group in sequencer.groups:
            known = plan.sequencer(group)
            assert (known.process, known.messages, known.bytes) == (
                sequencer.process, sequencer.messages, sequencer.bytes,
            )  # fmt: skip
    for domain in structure.broadcast_domains:
        for process in domain.members:
            known_domain = plan.broadcast_domain(process)
            assert (known_domain.members, known_domain.relay, known_domain.crossing) == (
                domain.members, domain.relay, domain.crossing,
            )  # fmt: skip


def test_names_of_any_kind_come_back(tmp_path: Path) -> None:
    members = {STRANGE: frozenset((f"p {STRANGE}", "q")), "other": frozenset(("q",))}
    plan = antiphon.load_plan(write(tmp_path, traffic_of(members, Random(1))))
    assert set(plan.groups) == set(members)
    assert set(plan.groups[STRANGE].members) == members[STRANGE]


def test_groups_join_by_the_domains_of_a_plan(tmp_path: Path) -> None:
    plan = antiphon.load_plan(write(tmp_path, office()))

    async def test() -> None:
        async with antiphon.Node("dave", address="127.0.0.1:0", incarnation=1) as node:
            for group in ("audit", "orders", "risk"):
                joined = await node.join(
                    group, members={"dave": node.address}, policy="static", domain=plan.domain(group)
                )
                assert joined.domain.overlaps
            await joined.send(b"to myself")

    asyncio.run(test())


BROKEN = [
    ("version = 1", "version = 2", "it is of version 2"),
    ("version = 1", "version = 1\nspeed = 3", "unknown field `speed`"),
    ("version = 1", "version = ", "it is no plan: "),
    ('name = "lonely"\nmembers', 'name = "chat"\nmembers', "there are two groups 'chat'"),
    ('groups = ["lonely"]\noverlaps', 'groups = ["lonely", "chat"]\noverlaps', "'chat' is in more than one causality"),
    ('groups = ["lonely"]\noverlaps', "groups = []\noverlaps", "group 'lonely' is in no causality domain"),
    ('groups = ["lonely"]\noverlaps', 'groups = ["lonely", "x"]\noverlaps', "name the group 'x', which no"),
    ('["audit", "orders"], ', "", "groups 'audit' and 'orders' share dave, but the overlaps of domain 'audit' lack"),
    ('[["audit", "orders"], ', '[["audit", "lonely"], ["audit", "orders"], ', "has no group 'lonely'"),
    ('rule = "carry"', 'rule = "hope"', "there is no rule 'hope'"),
    ('process = "judy"', 'process = "zoe"', "the sequencer 'zoe' is in no group"),
    ('name = "lonely"\nmembers = ["judy"]', 'name = "lonely"\nmembers = []', "name the process 'judy', which no"),
    ('relay = "', 'relay = "x', "is not in its broadcast domain"),
    ('relay = "bob"\n', "", "so the domain needs a relay"),
    ("crossing = [", 'crossing = ["lonely", ', "make the plan anew"),
]


@pytest.mark.parametrize(("good", "bad", "complaint"), BROKEN, ids=[complaint[:30] for _, _, complaint in BROKEN])
def test_a_plan_that_contradicts_itself_is_refused(good: str, bad: str, complaint: str, tmp_path: Path) -> None:
    file = write(tmp_path, office())
    text = file.read_text()
    assert good in text
    file.write_text(text.replace(good, bad, 1))
    with pytest.raises(antiphon.PlanError) as refusal:
        antiphon.load_plan(file)
    assert complaint in str(refusal.value)
    assert str(refusal.value).startswith(f"{file}: ")


def test_strongly_intersecting_groups_at_two_sequencers_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, office())
    text = file.read_text().replace('groups = ["audit", "risk"]', 'groups = ["audit"]')
    assert 'groups = ["audit"]\nmessages' in text
    file.write_text(text + '\n[[sequencer]]\nprocess = "erin"\ngroups = ["risk"]\n')
    with pytest.raises(antiphon.PlanError, match=r"'audit' and 'risk' share dave, erin: two or more"):
        antiphon.load_plan(file)


def test_overlapping_groups_in_two_causality_domains_are_refused(tmp_path: Path) -> None:
    plan = "version = 1\n"
    for group in "ab":
        plan += f'[[group]]\nname = "{group}"\nmembers = ["p"]\n[[causality]]\nname = "{group}"\ngroups = ["{group}"]\n'
    (tmp_path / "plan.toml").write_text(plan)
    with pytest.raises(antiphon.PlanError, match="'a' and 'b' share p, but they are in two causality domains"):
        antiphon.load_plan(tmp_path / "plan.toml")


def test_a_file_that_is_not_there_and_a_group_that_is_not_in_it(tmp_path: Path) -> None:
    with pytest.raises(antiphon.PlanError, match="it cannot be read: No such file"):
        antiphon.load_plan(tmp_path / "none.toml")
    plan = antiphon.load_plan(write(tmp_path, office()))
    for look in (plan.domain, plan.sequencer, plan.broadcast_domain):
        with pytest.raises(antiphon.UsageError, match=r"the plan has no .* for .* 'nothing'"):
            look("nothing")


def test_the_text_is_toml(tmp_path: Path) -> None:
    document = tomllib.loads(write(tmp_path, office()).read_text())
    assert document["group"][0] == {"name": "audit", "members": ["dave", "erin"]}
    assert document["causality"][1] == {"name": "lonely", "rule": "carry", "groups": ["lonely"], "overlaps": []}
