"""The choice between compiled and plain Python, on a small package made around the real `_build.py`."""

import os
import runpy
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from antiphon import _build

ROOT = Path(__file__).resolve().parent.parent
IMPORT_A = "import antiphon.kernel.a as a; print(a.__file__)"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one module of the core, compiled into a file that no interpreter can load."""
    package = tmp_path / "antiphon"
    (package / "kernel").mkdir(parents=True)
    shutil.copy(_build.__file__, package / "_build.py")
    (package / "__init__.py").write_text("from antiphon import _build\n_build.choose_build()\n")
    (package / "kernel" / "__init__.py").write_text("")
    (package / "kernel" / "a.py").write_text("A = 1\n")
    (package / "kernel" / f"a{EXTENSION_SUFFIXES[0]}").write_bytes(b"not a library")
    return package


def build_of(package: Path) -> dict[str, Any]:
    return runpy.run_path(str(package / "_build.py"))


def stamp(package: Path) -> None:
    build = build_of(package)
    build["write_stamp"](package, build["source_digests"](), None)


def run_python(package: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != _build.PURE_VARIABLE}
    environment = kept | {"PYTHONPATH": str(package.parent)} | environment
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.processes
def test_compiled_files_are_preferred_unless_pure_python_is_asked_for(package: Path) -> None:
    compiled = run_python(package, IMPORT_A)
    assert "ImportError" in compiled.stderr
    pure = run_python(package, IMPORT_A, ANTIPHON_PURE="1")
    assert pure.stdout.strip() == str(package / "kernel" / "a.py")
    assert "ImportError" in run_python(package, IMPORT_A, ANTIPHON_PURE="0").stderr


def test_a_fresh_build_is_not_stale(package: Path) -> None:
    stamp(package)
    assert build_of(package)["stale_sources"]() == []


def test_compiled_files_of_unknown_origin_are_stale(package: Path) -> None:
    assert build_of(package)["stale_sources"]() == ["kernel/a.py"]


def test_a_changed_a_new_and_a_vanished_source_are_stale(package: Path) -> None:
    stamp(package)
    source = package / "kernel" / "a.py"
    source.write_text("A = 2\n")
    assert build_of(package)["stale_sources"]() == ["kernel/a.py"]
    (package / "kernel" / "b.py").write_text("B = 1\n")
    assert build_of(package)["stale_sources"]() == ["kernel/a.py", "kernel/b.py"]
    source.unlink()
    assert build_of(package)["stale_sources"]() == ["kernel/a.py", "kernel/b.py"]


def test_without_compiled_files_nothing_is_stale(package: Path) -> None:
    (package / "kernel" / f"a{EXTENSION_SUFFIXES[0]}").unlink()
    assert build_of(package)["stale_sources"]() == []


def test_the_running_build_is_described(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_build.PURE_VARIABLE, raising=False)
    stamp(package)
    assert build_of(package)["describe"]() == "compiled"
    (package / "kernel" / "a.py").write_text("A = 2\n")
    assert build_of(package)["describe"]().startswith("compiled, but stale: kernel/a.py")
    (package / "kernel" / f"a{EXTENSION_SUFFIXES[0]}").unlink()
    build_of(package)["write_stamp"](package, {}, "no C compiler was found")
    assert build_of(package)["describe"]() == "pure Python (no C compiler was found)"
    monkeypatch.setenv(_build.PURE_VARIABLE, "1")
    assert build_of(package)["describe"]() == "pure Python (ANTIPHON_PURE is set)"


PROJECT = '[project]\nname = "antiphon"\nversion = "0"\n[tool.setuptools.packages.find]\nwhere = ["src"]\n'


def compile_core(root: Path) -> str:
    """What `setup.py build_ext --inplace` says on standard error."""
    kept = {name: value for name, value in os.environ.items() if name != _build.PURE_VARIABLE}
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=root, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


CALLER = """from antiphon.kernel.a import one
from antiphon.parts.a import hundred


def two() -> int:
    return one() + hundred()
"""


@pytest.mark.processes
@pytest.mark.skipif(find_spec("mypyc") is None, reason="mypy is not installed")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_build_tells_its_progress_and_compiles_only_what_changed(package: Path, tmp_path: Path) -> None:
    """The real setup.py around a small package: one module calls two others, whose names end alike."""
    root = tmp_path / "project"
    shutil.copytree(package, root / "src" / "antiphon", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    core = root / "src" / "antiphon" / "kernel"
    (core / "a.py").write_text("def one() -> int:\n    return 1\n")
    (core / "b.py").write_text(CALLER)
    other = root / "src" / "antiphon" / "parts"
    other.mkdir(exist_ok=True)
    (other / "__init__.py").touch()
    (other / "a.py").write_text("def hundred() -> int:\n    return 100\n")
    shutil.copy(ROOT / "setup.py", root)
    (root / "pyproject.toml").write_text(PROJECT)

    said = compile_core(root)
    total = said.rpartition("compiling file ")[2].split()[2].rstrip(":")
    assert "translating 3 modules to C" in said
    assert f"compiling file {total} of {total}" in said
    ask = "import antiphon.kernel.b as b; from antiphon import _build; print(b.__file__, b.two(), _build.describe())"
    file, two, described = run_python(root / "src" / "antiphon", ask).stdout.split()
    assert (Path(file).suffix, two, described) == (".so", "101", "compiled")
    assert "up to date" in compile_core(root)

    objects = {path.name: path.stat().st_mtime_ns for path in (root / "build").rglob("__native*.o")}
    assert len(objects) == 4  # three modules, and what belongs to the library
    (core / "a.py").write_text("def one() -> int:\n    return 10\n")
    compile_core(root)
    again = {path.name: path.stat().st_mtime_ns for path in (root / "build").rglob("__native*.o")}
    changed = {name for name in objects if again[name] != objects[name]}
    assert "__native_antiphon___kernel___a.o" in changed
    assert "__native_antiphon___kernel___b.o" not in changed
    assert run_python(root / "src" / "antiphon", ask).stdout.split()[1] == "110"


def test_a_class_that_has_lost_its_docstring_gets_it_back_from_its_source() -> None:
    bare = type("Options", (), {"__module__": "antiphon.kernel.options", "__doc__": ""})
    own = type("Options", (), {"__module__": "antiphon.kernel.options", "__doc__": "Its own."})
    stranger = type("Stranger", (), {"__module__": "nowhere.at.all", "__doc__": ""})
    _build.restore_docstrings([bare, own, stranger, "no class"])
    said = bare.__doc__ or ""
    assert said.startswith("How one group behaves; the defaults suit a local network.\n\nFields:\n    packet_bytes")
    assert "\n\nMethods:\n    numbers_max(self)\n        How far " in said
    assert own.__doc__ == "Its own."
    assert stranger.__doc__ == ""
