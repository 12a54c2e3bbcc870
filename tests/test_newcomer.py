"""The first hour of somebody who has just cloned this, in real processes: each command of README and guide as printed.

Ports are replaced by free ones; nothing else is changed.
"""

import ast
import importlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from functools import partial
from pathlib import Path

import pytest

import antiphon
from antiphon.cli.main import app
from antiphon.pipeline.reference import audit
from bench.peers.driver import free_ports
from tests.test_examples import LIMIT_S, ROOT, Program
from tests.test_readme import readme_program
from tests.toolkit.test_leader_examples import Worker, wait_for, workers

pytestmark = pytest.mark.processes

COMMAND = [sys.executable, "-c", "from antiphon.cli.main import main; main()"]


def run(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its output in pipes."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "COLUMNS": ""}
    return subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_the_readme_example_runs_twice_and_names_the_audit_of_each_run(tmp_path: Path) -> None:
    program = tmp_path / "quotes.py"
    program.write_text(readme_program())
    histories = []
    for _ in range(2):
        done = run([sys.executable, str(program)], tmp_path)
        assert done.returncode == 0, done.stderr
        *_, last = done.stdout.splitlines()
        words = last.split()
        assert words[:2] == [".venv/bin/antiphon", "audit"]
        histories.append(tmp_path / words[2])
    assert histories[0] != histories[1]
    assert [audit(history).verdict for history in histories] == ["kept", "kept"]


def help_examples() -> list[list[str]]:
    """The commands that `antiphon --help` gives as examples, in their order."""
    assert app.registered_callback is not None
    text = app.registered_callback.callback.__doc__
    assert text is not None
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("antiphon ")]
    return [re.split(r" {2,}| (?=the same record)", line)[0].split()[1:] for line in lines]


@pytest.mark.spark
def test_the_examples_in_the_help_work_one_after_another(tmp_path: Path) -> None:
    examples = {arguments[0]: arguments for arguments in help_examples()}
    for name in ("sim", "audit", "lineage", "export"):
        done = run([*COMMAND, *examples[name]], tmp_path)
        assert done.returncode == 0, f"antiphon {' '.join(examples[name])}: {done.stderr}"
    assert (tmp_path / "run1.html").exists()
    assert (tmp_path / "out.log").exists()


def test_output_in_a_pipe_is_neither_wrapped_nor_cut(tmp_path: Path) -> None:
    code = (
        "from antiphon.cli.console import show\n"
        "from antiphon.pipeline.result import Audit, Finding\n"
        "from antiphon.report.table import audit_table\n"
        "reason = '2 checks are undecided: ' + ', '.join(f'the log of p{n}/1 is cut short' for n in range(9)) + '.'\n"
        "finding = Finding(guarantee='causal', verdict='unknown', violations=0, unknown=2, checked=5, reason=reason)\n"
        "show(audit_table(Audit(verdict='unknown', events=1, rows=1, runs=1, findings=(finding,), observations=())))\n"
    )
    done = run([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "checks are undecided" in line]
    assert "p0/1" in line
    assert line.rstrip().endswith("the log of p8/1 is cut short.")
    assert max(len(line) - len(line.rstrip()) for line in done.stdout.splitlines()) < 10


def test_piped_output_of_commands_is_neither_wrapped_nor_cut(tmp_path: Path) -> None:
    """A simulated run and its audit, by real commands. The log of one member is lost, so that the reasons are long."""
    name = "history-with-a-name-that-is-by-itself-longer-than-a-terminal-is-wide-by-default-which-is-eighty"
    done = run([*COMMAND, "sim", "--members", "4", "--messages", "20", "--seed", "1", "--history", name], tmp_path)
    assert done.returncode == 0, done.stderr
    assert name in done.stdout + done.stderr, "the command that audits it, in one piece"
    for segment in (tmp_path / name).glob("p1-*.parquet"):
        segment.unlink()
    done = run([*COMMAND, "audit", "--quick", name], tmp_path)
    assert done.returncode == 3, done.stdout
    reasons = [line.strip() for line in done.stdout.splitlines() if "undecided" in line]
    assert reasons
    assert all(reason.endswith("which manifest.json lists, is gone)") for reason in reasons), reasons
    (summary,) = (line for line in done.stdout.splitlines() if line.startswith("unknown  "))
    assert summary.rstrip().endswith("of 1 run).")
    assert max(map(len, [summary, *reasons])) > 80


@pytest.mark.parametrize(
    ("example", "printed"),
    [
        ("replicated_counter.py", "members a"),
        ("replicated_dictionary.py", "members a"),
    ],
)
def test_ctrl_c_ends_an_example_while_it_waits_for_input(example: str, printed: str) -> None:
    (port,) = free_ports(1)
    program = Program(example, "a", port, [])
    try:
        program.expect(printed)
        started = time.monotonic()
        program.interrupt()
        assert program.wait(LIMIT_S) == 0
        assert time.monotonic() - started < 20
    finally:
        program.kill()
        program.close()


@pytest.mark.parametrize("example", ["replicated_bank.py", "shared_whiteboard.py"])
def test_ctrl_c_ends_an_example_of_conversations(example: str) -> None:
    ports = free_ports(2)
    programs = [Program(example, "b", ports[1], [])]
    programs.append(Program(example, "a", ports[0], [], [f"b=127.0.0.1:{ports[1]}"]))
    try:
        for program in programs:
            program.expect("members a b")
        for program in programs:
            program.interrupt()
        assert [program.wait(LIMIT_S) for program in programs] == [0, 0]
    finally:
        for program in programs:
            program.kill()
            program.close()


def test_ctrl_c_ends_the_examples_of_tools(tmp_path: Path) -> None:
    store = tmp_path / f"{uuid.uuid4().hex}.json"
    store.write_text('{"IBM": "91"}')
    (port,) = free_ports(1)
    with workers() as running:
        running["leader"] = Worker("leader.py", str(tmp_path / "log"), "a", f"127.0.0.1:{port}")
        running["cache"] = Worker("cache_workers.py", str(store))
        running["cache"].type("get IBM")
        wait_for(lambda: running["leader"].says("leads"), "that it leads")
        wait_for(lambda: running["cache"].says("got 91"), "a value")
        assert interrupted(running) == {"leader": 0, "cache": 0}


def test_ctrl_c_ends_the_service_and_the_examples_of_its_clients(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    service = subprocess.Popen(
        [*COMMAND, "sequencer", "--address", address],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with workers() as running:
            running["watching"] = Worker("event_notification.py", address, "watch", "fire")
            running["reading"] = Worker("resuming_reader.py", address, str(tmp_path / "ledger.jsonl"))
            running["area-0: ann is at 0"] = Worker("virtual_room.py", address, "ann")
            for printed, worker in running.items():
                wait_for(partial(worker.says, printed), printed)
            assert set(interrupted(running).values()) == {0}
        service.send_signal(signal.SIGINT)
        assert service.wait(LIMIT_S) == 0
    finally:
        service.kill()
        service.wait()


def interrupted(running: dict[str, Worker]) -> dict[str, int]:
    """The exit codes of these programs, all of which are ended by Ctrl-C."""
    for worker in running.values():
        worker.process.send_signal(signal.SIGINT)
    return {name: worker.process.wait(LIMIT_S) for name, worker in running.items()}


def test_ctrl_c_is_tried_on_every_example() -> None:
    text = Path(__file__).read_text()
    submitted = {"submit_audit.py"}  # spark-submit runs it, and takes the signals
    names = {path.name for path in (ROOT / "docs" / "examples").glob("*.py")} - submitted
    assert [name for name in sorted(names) if f'"{name}"' not in text] == []


def test_the_walk_through_the_guide() -> None:
    """Its three commands as printed; alice is killed, the others go on, and alice gets what was added meanwhile."""
    commands = re.findall(r"docs/examples/(\w+\.py) (\w+) +([\d.: ]+)\n", (ROOT / "docs" / "guide.md").read_text())
    ports = dict(zip(("7400", "7401", "7402"), free_ports(3), strict=True))
    assert [name for _, name, _ in commands] == ["alice", "bob", "carol"]
    running: dict[str, Program] = {}
    try:
        for example, name, addresses in commands:
            own, *contacts = [ports[port] for port in re.findall(r":(\d+)", addresses)]
            running[name] = Program(example, name, own, contacts)
            running[name].expect("members " + " ".join(running))
        running["alice"].type("5")
        for program in running.values():
            program.expect("count 5", ask="")
        running["alice"].kill()
        running.pop("alice").close()
        for name in ("bob", "carol"):
            running[name].expect("members bob carol")
        running["bob"].type("7")
        running["alice"] = Program(example, "alice", ports["7400"], [ports["7401"], ports["7402"]])
        for program in running.values():
            program.expect("count 12", ask="")
    finally:
        for program in running.values():
            program.kill()
            program.close()


PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_the_pages_compiles_and_imports_what_exists(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        source = textwrap.dedent(block)
        tree = compile(source, page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("antiphon"):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "antiphon":
                assert hasattr(antiphon, node.attr), node.attr


def test_joins_views_and_suspicions_are_logged_at_info(tmp_path: Path) -> None:
    program = """
import asyncio, logging, sys
import antiphon
logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
A, B, C = (f"127.0.0.1:{port}" for port in sys.argv[1:])

async def main():
    members = {"a": A, "b": B, "c": C}
    nodes = [antiphon.Node(n, address=x, incarnation=1, options=antiphon.Options.fast()) for n, x in members.items()]
    for node in nodes:
        await node.start()
    groups = [await node.join("g", members=members, policy="primary") for node in nodes]
    nodes[2]._driver.stop("killed")
    async for event in groups[0]:
        if isinstance(event, antiphon.ViewChange) and event.failed:
            break
    await groups[1].leave()
    for node in nodes[:2]:
        await node.close()

asyncio.run(main())
"""
    done = run([sys.executable, "-c", program, *map(str, free_ports(3))], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("antiphon INFO")]
    installed = "antiphon INFO event=view_installed process=a/1 group=g"
    assert f"{installed} view=1 members=a/1,b/1,c/1 joined=a/1,b/1,c/1" in lines
    assert "antiphon INFO event=member_suspected process=a/1 group=g member=c/1 view=1" in lines
    assert f"{installed} view=2 members=a/1,b/1 failed=c/1" in lines
    assert "antiphon INFO event=group_left process=b/1 group=g" in lines
