"""The comparison refuses what is not complete, counts what it should, and leaves no process behind.

No timing is asserted. Systems here are small programs that keep to the protocol of a member, or break it.
"""

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.peers import corosync, jgroups, must, picture
from bench.peers.bare import split
from bench.peers.command import SYSTEMS, chosen, main, named, parse, ratios
from bench.peers.driver import Run, free_ports, run_once
from bench.peers.limits import RAW_TCP, RAW_UDP, RAW_UDP_GSO
from bench.peers.member import NUMBERS, Seat, Tally
from bench.peers.ours import MESSAGES, antiphon
from bench.peers.plan import Case, Result, calibrate, measure, next_count, ratio, table
from bench.peers.system import Load, PeerError, System, call, need_debian

LOAD = Load(members=3, size=64, warmup=50, count=300)
HONEST = {"received": 600, "wrong": 0, "seconds": 0.5, "cpu_s": 0.25}


def nothing() -> None:
    return


def fake(report: object = HONEST, *, before: str = "", name: str = "fake") -> System:
    """A member that reports what it is told to; `before` is done first."""
    program = (
        "import sys, time, os\n"
        f"{before}\n"
        "for _ in range(2):\n"
        "    print('ready', flush=True)\n"
        "    assert sys.stdin.readline() == 'go\\n'\n"
        f"print({json.dumps(json.dumps(report))}, flush=True)\n"
        "sys.stdin.read()\n"
    )
    return System(
        name=name,
        order="fifo",
        version=lambda: "1",
        prepare=nothing,
        command=lambda: [sys.executable, "-c", program],
    )


def run_of(rate: float) -> Run:
    return Run(rate=rate, seconds=1.0, cpu_us=1.0, reports=[])


def result_of(name: str, size: int, *rates: float) -> Result:
    return Result(Case(fake(name=name), size, 3), [run_of(rate) for rate in rates])


# ---- one run -------------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_complete_run_counts() -> None:
    run = run_once(fake(), LOAD)
    assert run.rate == 600 / 0.5
    assert run.cpu_us == pytest.approx(0.25 * 3 * 1e6 / 1800)


@pytest.mark.processes
def test_lines_that_are_none_of_the_protocol_are_passed_over() -> None:
    assert run_once(fake(before="print('GMS: address is x')"), LOAD).seconds == 0.5


@pytest.mark.processes
@pytest.mark.parametrize(
    ("report", "complaint"),
    [
        ({**HONEST, "received": 599}, "received 599 of 600"),
        ({**HONEST, "received": 601}, "received 601 of 600"),
        ({**HONEST, "wrong": 1}, "not the next of its"),
        ({**HONEST, "seconds": 0.0}, "does not count"),
    ],
)
def test_a_run_that_is_not_complete_is_refused(report: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        run_once(fake(report), LOAD)


@pytest.mark.processes
def test_a_member_that_dies_is_named_with_its_last_words() -> None:
    with pytest.raises(PeerError, match=r"member \d, ended with status 1 \(no such thing\)"):
        run_once(fake(before="sys.exit('no such thing')"), LOAD)


@pytest.mark.processes
def test_a_member_that_says_nothing_ends_the_run_and_is_killed(tmp_path: Path) -> None:
    note_pid = f"open(os.path.join({str(tmp_path)!r}, str(os.getpid())), 'w').close()"
    silent = fake(before=f"{note_pid}\nprint('ready', flush=True)\nprint('ready', flush=True)\ntime.sleep(600)")
    with pytest.raises(PeerError, match="did not answer within 1 s"):
        run_once(silent, LOAD, limit_s=1.0)
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 3
    assert not [pid for pid in pids if is_running(pid)]


def is_running(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.processes
def test_a_program_that_is_not_there_is_no_result() -> None:
    missing = System(
        name="x", order="fifo", version=lambda: "1", prepare=nothing, command=lambda: ["no-such-program-here"]
    )
    with pytest.raises(PeerError, match="could not be started"):
        run_once(missing, LOAD)


def test_ports_are_free_and_different() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5


# ---- real members --------------------------------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize(
    "system",
    [*(antiphon(order) for order in ("fifo", "causal", "agreed", "safe")), antiphon("causal", MESSAGES)],
    ids=lambda system: system.name,
)
def test_antiphon_gets_every_message_through(system: System) -> None:
    run = run_once(system, LOAD)
    assert [report["received"] for report in run.reports] == [600, 600, 600]


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="UDP_SEGMENT and UDP_GRO are Linux's")
@pytest.mark.parametrize("size", [64, 16_384])
@pytest.mark.parametrize("system", [RAW_UDP_GSO, RAW_UDP, RAW_TCP], ids=lambda system: system.name)
def test_the_raw_limits_move_every_byte(system: System, size: int) -> None:
    run = run_once(system, Load(members=3, size=size, warmup=50, count=300))
    assert [report["received"] for report in run.reports] == [600, 600, 600]


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="UDP_SEGMENT and UDP_GRO are Linux's")
@pytest.mark.parametrize("size", [2, 64, 1000])
def test_the_bare_loop_moves_every_message_uncompiled_too(size: int) -> None:
    bare = SYSTEMS["bare-loop"]
    pure = System(
        name=bare.name, order=bare.order, version=bare.version, prepare=nothing, command=bare.command,
        extra=lambda: ["pure"],
    )  # fmt: skip
    run = run_once(pure, Load(members=3, size=size, warmup=50, count=20_000))
    assert [report["received"] for report in run.reports] == [40_000] * 3


def why_not(name: str) -> str:
    """Why a peer cannot be tried here; tests install nothing."""
    needs = corosync.FILES if name == "corosync-cpg" else [jgroups.JAR, jgroups.LOGGING]
    missing = [str(file) for file in needs if not file.exists()]
    if missing:
        return f"{missing[0]} is not installed"
    if name == "corosync-cpg":
        return "a daemon runs already" if corosync.daemons() else "" if os.geteuid() == 0 else "needs root"
    return "" if shutil.which("javac") else "javac is not installed"


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.alone
@pytest.mark.parametrize("name", ["corosync-cpg", "jgroups-udp", "jgroups-sequencer"])
def test_a_peer_gets_every_message_through(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if reason := why_not(name):
        pytest.skip(reason)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    named(name).prepare()
    run = run_once(named(name), LOAD)
    assert [report["received"] for report in run.reports] == [600, 600, 600]
    assert not corosync.daemons()


def test_a_packet_is_split_into_its_messages() -> None:
    messages: list[bytes] = []
    split(b"head" + b"\0\3abc" + b"\0\0" + b"\0\1d" + b"rest", 4, 14, messages)
    assert messages == [b"abc", b"", b"d"]


# ---- counting ------------------------------------------------------------------------------------------------------


def seat() -> Seat:
    return Seat(rank=0, ports=[1, 2, 3], size=16, warmup=0, count=0, extra=[])


def payloads(rank: int, start: int, count: int) -> list[bytes]:
    return [bytes(((start + number) % NUMBERS, rank)) for number in range(count)]


def test_a_tally_is_complete_when_all_of_the_others_are_there() -> None:
    tally = Tally(seat(), 300)
    tally.take(payloads(1, 0, 300), 1)
    tally.take(payloads(0, 7, 9), 0)
    assert not tally.is_complete
    tally.take(payloads(2, 0, 100), 2)
    tally.take(payloads(2, 100, 200), 2)
    assert tally.is_complete
    assert (tally.received, tally.wrong) == (600, 0)


@pytest.mark.parametrize(("start", "count"), [(1, 5), (255, 3)])
def test_a_tally_sees_what_is_not_next(start: int, count: int) -> None:
    tally = Tally(seat(), 300)
    tally.take(payloads(1, start, count), 1)
    assert tally.wrong == 1


def test_messages_have_the_size_that_was_asked_for() -> None:
    assert {len(payload) for payload in seat().payloads()} == {16}
    assert len(set(seat().payloads())) == NUMBERS


# ---- plan ----------------------------------------------------------------------------------------------------------


def test_the_number_of_messages_is_found_by_trial() -> None:
    def runner(_: System, load: Load, limit_s: float) -> Run:
        return Run(rate=1.0, seconds=load.count / 100_000, cpu_us=0.0, reports=[])

    assert calibrate(Case(fake(), 64, 3), 3.0, runner) == pytest.approx(300_000, rel=0.01)


def test_no_trial_grows_too_fast() -> None:
    assert next_count(1000, 0.001, 3.0) == 16_000
    assert next_count(1000, 6.0, 3.0) == 500


def test_systems_take_turns() -> None:
    seen: list[str] = []

    def runner(system: System, load: Load, limit_s: float) -> Run:
        seen.append(system.name)
        return run_of(len(seen))

    cases = [Case(fake(name="a"), 64, 3), Case(fake(name="b"), 64, 3)]
    results = measure(cases, repeats=3, wanted_s=1.0, say=lambda _: None, run=runner)
    assert seen[-6:] == ["a", "b", "a", "b", "a", "b"]
    assert [len(result.runs) for result in results] == [3, 3]


def test_one_failed_run_leaves_no_result() -> None:
    seen: list[str] = []

    def runner(system: System, load: Load, limit_s: float) -> Run:
        seen.append(system.name)
        if len(seen) == 5:
            raise PeerError("b failed")
        return run_of(1.0)

    with pytest.raises(PeerError, match="b failed"):
        measure([Case(fake(), 64, 3)], repeats=5, wanted_s=1.0, say=lambda _: None, run=runner)


def test_median_spread_and_ratio() -> None:
    over, under = result_of("a", 64, 30.0, 10.0, 20.0), result_of("b", 64, 10.0, 10.0, 5.0)
    assert over.value == 20.0
    assert over.spread == 1.0
    assert ratio(over, under) == (2.0, 1.0, 4.0)
    assert ratios([over, under]) == [
        {"over": "a", "under": "b", "size": 64, "members": 3, "ratio": 2.0, "least": 1.0, "greatest": 4.0}
    ]
    assert "2.00 (1.00 to 4.00)" in table([over, under])
    assert over.row().keys() >= {"system", "workload", "order", "size", "members", "value", "unit", "spread"}


# ---- targets and pictures ------------------------------------------------------------------------------------------


def test_every_target_names_systems_that_there_are_and_can_be_measured() -> None:
    for case in must.cases(named):
        assert case.size <= case.system.size_max
    assert len(must.cases(named)) == len(set(map(str, must.cases(named))))


def test_targets_are_judged() -> None:
    targets = [must.Target("a", "b", 64, 2.0), must.Target("b", "a", 64, 0.6)]
    outcomes = must.judge([result_of("a", 64, 20.0), result_of("b", 64, 10.0)], targets)
    assert [outcome.is_reached for outcome in outcomes] == [True, False]
    lines = must.table(outcomes).splitlines()
    assert " reached" in lines[1]
    assert "not reached" in lines[2]


def test_the_picture_has_a_dot_for_each_result() -> None:
    results = [
        result_of("antiphon-causal", 64, 5e5, 6e5),
        result_of("zeromq", 64, 3e5),
        result_of("raw-udp", 1000, 9e3),
    ]
    root = ElementTree.fromstring(picture.draw(results))
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 3
    assert titles[0] is not None
    assert titles[0].startswith("antiphon-causal (1): 550,000")


# ---- command line --------------------------------------------------------------------------------------------------


def test_all_systems_are_measured_unless_some_are_named() -> None:
    assert [case.system.name for case in chosen(parse([]))] == list(SYSTEMS)
    some = chosen(parse(["--systems", "zeromq,raw-tcp", "--size", "64,1000", "--members", "2"]))
    assert [str(case) for case in some[:2]] == ["zeromq, 2 members, 64 bytes", "raw-tcp, 2 members, 64 bytes"]
    assert len(some) == 4
    assert "bare-loop" not in [case.system.name for case in chosen(parse(["--size", "16384"]))]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--systems", "isis"], "there is no system 'isis'"),
        (["--members", "1"], "a group 2 members"),
        (["--systems", "bare-loop", "--size", "16384"], "no message can be longer"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_sentence(
    argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert complaint in printed.err


@pytest.mark.processes
def test_json_is_one_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot, saved = tmp_path / "peers.svg", tmp_path / "peers.json"
    files = ["--plot", str(plot), "--save", str(saved)]
    main(["--systems", "raw-tcp,raw-udp", "--repeats", "1", "--seconds", "0.05", "--json", *files])
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(saved.read_text())
    assert [row["system"] for row in document["results"]] == ["raw-tcp", "raw-udp"]
    assert [row["over"] for row in document["ratios"]] == ["raw-tcp"]
    assert plot.read_text().startswith("<svg")


@pytest.mark.processes
def test_what_cannot_be_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PeerError, match="apt-get install corosync"):
        need_debian(["corosync"], [Path("no-such-file")])
    with pytest.raises(PeerError, match="listing failed with status 3: why"):
        call("listing", [sys.executable, "-c", "import sys; print('why', file=sys.stderr); sys.exit(3)"])
