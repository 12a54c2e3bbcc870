"""Builds the wheel and tries it where nothing of the tree can be seen: an empty environment, another directory.

    python -m tests.wheel

The wheel is built with what is installed here (setuptools and mypy), so that the C files of the last build are reused.
In the empty environment it is imported, has to be compiled if this tree can be, and runs a simulation on each stack.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

from antiphon import _build
from antiphon.stacks.registry import OFFERS

ROOT: Final = Path(__file__).resolve().parent.parent
ASK: Final = """
import antiphon, json
print(json.dumps([antiphon.__file__, antiphon._build.describe(), antiphon.__version__]))
"""
MEMBERS: Final = 3
SIMULATION: Final = ("--members", str(MEMBERS), "--messages", "40", "--seed", "7", "--faults", "all")


def run(*command: str | Path, cwd: Path, quiet: bool = True) -> str:
    """The command's standard output; if it fails, say all that it said and stop."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=quiet, text=True, check=False)
    if done.returncode:
        sys.exit(f"wheel: {' '.join(map(str, command))} failed ({done.returncode})\n{done.stdout}\n{done.stderr}")
    return done.stdout or ""


def build(directory: Path) -> Path:
    """The wheel, built into the directory."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", directory, ".", cwd=ROOT, quiet=False)
    return max(directory.glob("antiphon-*.whl"), key=lambda path: path.stat().st_mtime)


def try_out(wheel: Path, directory: Path) -> None:
    """Install the wheel into an empty environment, and use it from there."""
    print(f"wheel: installing {wheel.name} into an empty environment", flush=True)
    venv.create(directory / "venv", with_pip=True)
    bin = directory / "venv" / "bin"
    run(bin / "python", "-m", "pip", "install", "--disable-pip-version-check", wheel, cwd=directory, quiet=False)
    file, described, version = json.loads(run(bin / "python", "-c", ASK, cwd=directory))
    if not Path(file).is_relative_to(directory):
        sys.exit(f"wheel: imported {file}, which is not what was installed")
    if _build.extension_files() and described != "compiled":
        sys.exit(f"wheel: this tree is compiled, but what was installed is {described}")
    print(f"wheel: antiphon {version}, {described}, from {file}")
    for stack in OFFERS:
        sim = (bin / "antiphon", "sim", "--stack", stack, *SIMULATION, "--history", directory / stack, "--json")
        told = json.loads(run(*sim, cwd=directory))
        if not told["quiet"] or told["delivered"] != MEMBERS * told["sent"]:
            sys.exit(f"wheel: a simulation on {stack} did not deliver everything: {told}")
        print(f"wheel: a simulation on {stack}: {told['sent']} messages sent, {told['delivered']} deliveries")


def main() -> None:
    dist = ROOT / "dist"
    dist.mkdir(exist_ok=True)
    wheel = build(dist)
    with tempfile.TemporaryDirectory() as directory:
        try_out(wheel, Path(directory).resolve())
    print(f"wheel: {wheel.relative_to(ROOT)} is good")


if __name__ == "__main__":
    main()
