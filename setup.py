"""Compiles the core with mypyc where that can be done, and leaves it plain Python, saying why, where it cannot.

Everything else about the package stands in pyproject.toml. What is compiled, and how a build is told from a stale one,
stands in src/antiphon/_build.py. With a working C compiler a compile that fails is an error, never a silent fallback.

What keeps the build short, beside compiling on all cores: most modules are compiled with less optimisation (HOT, COLD);
gcc reads the headers that all C files begin with only once; and the shims, small extension modules
of which there is one for each module of the library, are compiled several at a time.

mypyc writes one C file per module, all of one library. Compiling them one by one keeps the compiler small (one file of
everything took more than 1 GB), lets the cores share the work, and lets the next build skip what did not change. Calls
between modules stay direct; what is lost is inlining across modules (CONTRIBUTING.md has the figures).
"""

import importlib.util
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
BUILD = runpy.run_path(str(ROOT / "src" / "antiphon" / "_build.py"))
LOG_EVERY_S = 5.0
HOT = (
    "engine",
    "history",
    "kernel",
    "parts",
    "recording",
    "runtime",
    "stacks/stack",
    "stacks/vector",
)
"""How the names of modules begin that are compiled with -O3: those that messages of every stack pass through, and the
default stack. The others get -Og, which takes the compiler less than half of the time (see CONTRIBUTING.md)."""
COLD = (
    *(f"kernel/{name}" for name in ("causality_domain", "declaration", "options", "outcomes")),
    "parts/former_life",
    *(f"parts/membership/{name}" for name in ("declared_member", "graph_session", "graph_view_end", "packet_view_end")),
    *(f"parts/membership/{name}" for name in ("agreement", "entrance", "founding", "membership", "messages", "phases")),
    *(f"parts/membership/{name}" for name in ("policies", "reachability", "requests", "rounds", "sender")),
    *(f"stacks/vector/{name}" for name in ("situations", "structure", "view_end")),
)
"""Of these, those that no message passes through."""


def optimisation(source: str) -> list[str]:
    """The compiler's options for the C file of one module, beside those for all."""
    module = Path(source).stem.removeprefix(f"__native_{BUILD['GROUP']}___").replace("___", "/")
    hot = module.startswith(HOT) and not module.startswith(COLD)
    return [] if hot or not Path(source).name.startswith("__native") else ["-Og"]


SHIMS_MAX = 16
"""More would be compiled sooner, and make each copy larger."""
COMMON_HEADERS = ("__native_antiphon.h", "__native_internal_antiphon.h")
"""What every C file of the library includes first."""


def combine_shims(shims: list[Extension], directory: Path) -> list[tuple[Extension, list[Extension]]]:
    """Extensions that hold up to SHIMS_MAX modules each, with these modules: the file of a module is a copy of one.

    Python calls `PyInit_<last part of the name>` in the file that it has found, so modules whose names end alike have
    to be in different files."""
    apart: list[dict[str, Extension]] = []
    for shim in shims:
        last = shim.name.rpartition(".")[2]
        roomy = [group for group in apart if last not in group and len(group) < SHIMS_MAX]
        if not roomy:
            apart.append({last: shim})
        else:
            roomy[0][last] = shim
    combined = []
    for place, group in enumerate(apart):
        together = list(group.values())
        lines = []
        for number, shim in enumerate(together):
            # Each of them also defines this name, for another compiler's sake.
            lines.append(f"#define PyInit___init__ PyInit___init__{number}\n")
            lines.append(f'#include "{Path(shim.sources[0]).resolve()}"\n#undef PyInit___init__\n')
        source = directory / f"antiphon_shims_{place}.c"
        write_if_changed(source, "".join(lines))
        extension = Extension(
            f"antiphon_shims_{place}", [str(source)], extra_compile_args=together[0].extra_compile_args
        )
        extension._links_to_dynamic = extension._needs_stub = False
        combined.append((extension, together))
    return combined


def write_if_changed(file: Path, text: str) -> None:
    if not file.is_file() or file.read_text() != text:
        file.write_text(text)


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


def core_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CompiledDistribution(Distribution):
    """A distribution that has extension modules exactly if they can be compiled here."""

    def has_ext_modules(self) -> bool:
        return why_pure() is None


class Progress:
    """Says which of how many files is being compiled: on a terminal in one line, in a log every few seconds."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._said_s = 0.0
        self._lock = threading.Lock()

    def step(self, source: str) -> None:
        with self._lock:
            self._done += 1
            last = self._done == self._total
            text = f"antiphon: compiling file {self._done} of {self._total}: {Path(source).name}"
            if sys.stderr.isatty():
                print(f"\r{text[:79]:79}", end="\n" if last else "", file=sys.stderr, flush=True)
            elif last or time.monotonic() - self._said_s > LOG_EVERY_S:
                self._said_s = time.monotonic()
                print(text, file=sys.stderr, flush=True)


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
        self.parallel = int(self.parallel or core_count())

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

    def build_extensions(self) -> None:
        """Compile as many C files at a time as there are cores, whatever extension they belong to."""
        modules = self.extensions
        library = max(modules, key=lambda extension: len(extension.sources))
        shims = [extension for extension in modules if extension is not library]
        combined = combine_shims(shims, Path("build")) if os.name == "posix" else [(shim, [shim]) for shim in shims]
        self.extensions = [library, *(extension for extension, _ in combined)]  # the library first: it is most of it
        self.compiler.compile = self._compile_apart(self.compiler.compile)
        super().build_extensions()
        self.extensions = modules
        for extension, together in combined:
            file = self.get_ext_fullpath(extension.name)
            for shim in together:
                target = Path(self.get_ext_fullpath(shim.name))
                target.parent.mkdir(parents=True, exist_ok=True)
                if target != Path(file):
                    shutil.copy(file, target)
            if extension not in modules:
                Path(file).unlink()

    def _compile_apart(self, compile: Callable[..., list[str]]) -> Callable[..., list[str]]:
        """The compiler's `compile`, but for each source by itself, the largest first, and only if something changed."""
        cores = threading.Semaphore(int(self.parallel))
        progress = Progress(sum(len(extension.sources) for extension in self.extensions))
        headers = Path("build").glob("__native*.h")
        common_s = max(path.stat().st_mtime for path in [Path(__file__), *headers])
        precompiled: list[str] = []

        def compile_one(source: str, output_dir: str | None, options: dict[str, Any]) -> str:
            with cores:
                progress.step(source)
                target = Path(self.compiler.object_filenames([source], output_dir=output_dir)[0])
                if target.is_file() and target.stat().st_mtime > max(common_s, Path(source).stat().st_mtime):
                    return str(target)
                own = [*optimisation(source), *(precompiled if Path(source).name.startswith("__native") else ())]
                apart = {**options, "extra_postargs": [*(options.get("extra_postargs") or ()), *own]}
                return compile([source], output_dir=output_dir, **apart)[0]

        def compile_all(sources: list[str], output_dir: str | None = None, **options: Any) -> list[str]:
            if len(sources) > 1:
                precompiled[:] = self._precompile(common_s, options)
            largest_first = sorted(sources, key=lambda source: -Path(source).stat().st_size)
            with ThreadPoolExecutor(int(self.parallel)) as pool:
                objects = pool.map(lambda source: compile_one(source, output_dir, options), largest_first)
                return list(objects)

        return compile_all

    def _precompile(self, common_s: float, options: dict[str, Any]) -> list[str]:
        """Have gcc read what all C files of the library include; what to give it with each of them. Other compilers
        read the headers each time."""
        version = subprocess.run(
            [*self.compiler.compiler_so[:1], "--version"], capture_output=True, text=True, check=False
        )
        if "Free Software Foundation" not in version.stdout:
            return []
        header = Path("build", "antiphon_common.h")
        write_if_changed(header, "".join(f'#include "{name}"\n' for name in COMMON_HEADERS))
        target = header.with_name(f"{header.name}.gch")
        if not target.is_file() or target.stat().st_mtime <= common_s:
            folders = [*(options.get("include_dirs") or ()), *self.compiler.include_dirs]
            command = [*self.compiler.compiler_so, *(f"-I{folder}" for folder in folders)]
            command += [*(options.get("extra_postargs") or ()), "-x", "c-header", str(header), "-o", str(target)]
            if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                return []
        return ["-include", str(header)]

    def _in_place(self) -> bool:
        return bool(self.inplace or getattr(self, "editable_mode", False))

    def _is_fresh(self) -> bool:
        return bool(BUILD["extension_files"]()) and not BUILD["stale_sources"]()


def compile_to_c() -> list[Extension]:
    """The core as C extension modules, all in one library so that calls between its modules stay direct."""
    from mypyc.build import mypycify

    sources = [str(source.relative_to(ROOT)) for source in BUILD["compiled_sources"]()]
    print(f"antiphon: translating {len(sources)} modules to C", file=sys.stderr, flush=True)
    # A build may see fewer installed packages than a developer does: an ignore that is not needed here is no error.
    options = ["--no-warn-unused-ignores", *sources]
    extensions: list[Extension] = mypycify(
        options, opt_level="3", debug_level="0", multi_file=True, group_name=BUILD["GROUP"]
    )
    for extension in extensions:
        if os.name == "posix":
            # Within the library a call is a call, not a jump through a table that could be pointed elsewhere.
            extension.extra_compile_args = [*extension.extra_compile_args, "-fvisibility=hidden"]
    return extensions


os.chdir(ROOT)
setup(distclass=CompiledDistribution, cmdclass={"build_ext": CompileCore})
