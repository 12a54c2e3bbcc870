"""Standard output belongs to the result alone."""

import os
import subprocess
import sys

import pytest

from antiphon.cli.console import counting, quiet_standard_output, show_json


@pytest.mark.processes
def test_stray_output_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_standard_output():
        print("from a library")
        os.write(1, b"from C code\n")
        subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    show_json({"verdict": "kept"})
    out, err = capfd.readouterr()
    assert out == '{"verdict": "kept"}\n'
    assert err == "from a library\nfrom C code\nfrom a child\n"


def test_away_from_a_terminal_a_count_prints_a_line_per_tenth(capfd: pytest.CaptureFixture[str]) -> None:
    with counting("delivered") as progress:
        for done in range(1001):
            progress(done, 1000)
    lines = capfd.readouterr().err.splitlines()
    assert lines == [f"delivered {done:,} of 1,000" for done in range(100, 1001, 100)]
