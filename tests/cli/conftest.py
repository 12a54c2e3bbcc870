"""Runs the command line in this process, as a shell would see it: exit code, standard output, standard error."""

from typing import NamedTuple, Protocol

import pytest

from antiphon.cli.main import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


class Run(Protocol):
    def __call__(self, *arguments: str) -> Outcome: ...


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run_main(*arguments: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["antiphon", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Outcome(exit.value.code if isinstance(exit.value.code, int) else 0, out, err)

    return run_main
