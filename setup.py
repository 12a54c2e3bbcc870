"""Compiles the core with mypyc where that can be done, and leaves it plain Python, saying why, where it cannot.

Everything else about the package stands in pyproject.toml. What is compiled, and how a build is told from a stale one,
stands in src/antiphon/_build.py. With a working C compiler a compile that fails is an error, never a silent fallback.
"""

import importlib.util
import os
import runpy
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
BUILD = runpy.run_path(str(ROOT / "src" / "antiphon" / "_build.py"))


def why_pure() -> str | None:
    """Why the core cannot or shall not be compiled here, or None if it can."""
    if BUILD["pure_forced"]():
        return f"{BUILD['PURE_VARIABLE']} was set when it was built"
    if not BUILD["compiled_sources"]():
        return "there is nothing to compile"
    if importlib.util.find_spec("mypyc") is None:
        return "mypy was not installed when it was built"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    with tempfile.TemporaryDirectory() as directory:
        probe = Path(directory, "probe.c")
        probe.write_text("#include <Python.h>\n")
        command = [*compiler, "-I", sysconfig.get_path("include"), "-c", str(probe), "-o", str(probe.with_suffix(".o"))]
        try:
            works = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return f"no C compiler was found ({compiler[0]}) when it was built"
    return None if works else f"{compiler[0]} cannot compile against Python.h; are Python's headers installed?"


class CompiledDistribution(Distribution):
    """A distribution that has extension modules exactly if they can be compiled here."""

    def has_ext_modules(self) -> bool:
        return why_pure() is None


class CompileCore(build_ext):
    """Runs mypyc at the last moment, so that asking the package for its name stays quick, and stamps what it built."""

    pure_reason: str | None = None
    fresh = False

    def finalize_options(self) -> None:
        self.pure_reason = why_pure()
        self.fresh = self.pure_reason is None and self._in_place() and self._is_fresh()
        if self.pure_reason is None and not self.fresh:
            self.distribution.ext_modules = compile_to_c()
        super().finalize_options()

    def run(self) -> None:
        if self.fresh:
            print("antiphon: the compiled core is up to date", file=sys.stderr)
            return
        digests = BUILD["source_digests"]()
        if self._in_place():
            for file in BUILD["extension_files"]():
                file.unlink()
        if self.pure_reason is None:
            super().run()
        else:
            print(f"antiphon: the core stays plain Python: {self.pure_reason}", file=sys.stderr)
        directory = BUILD["PACKAGE"] if self._in_place() else Path(self.build_lib, "antiphon")
        if directory.is_dir():
            BUILD["write_stamp"](directory, digests if self.pure_reason is None else {}, self.pure_reason)

    def _in_place(self) -> bool:
        return bool(self.inplace or getattr(self, "editable_mode", False))

    def _is_fresh(self) -> bool:
        return bool(BUILD["extension_files"]()) and not BUILD["stale_sources"]()


def compile_to_c() -> list[object]:
    """The core as C extension modules, all in one library so that calls between its modules stay direct."""
    from mypyc.build import mypycify

    sources = [str(source.relative_to(ROOT)) for source in BUILD["compiled_sources"]()]
    # A build may see fewer installed packages than a developer does: an ignore that is not needed here is no error.
    return mypycify(["--no-warn-unused-ignores", *sources], opt_level="3", group_name=BUILD["GROUP"])


os.chdir(ROOT)
setup(distclass=CompiledDistribution, cmdclass={"build_ext": CompileCore})
