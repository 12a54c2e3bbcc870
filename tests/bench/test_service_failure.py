"""A sequencer killed under load, with real processes, in a small version; `make service-failure` has the large one."""

from pathlib import Path

import pytest

from bench import service_failure


@pytest.mark.processes
def test_a_killed_sequencer_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    options = service_failure.arguments().parse_args(["--clients", "6", "--groups", "12", "--seconds", "2", "--quick"])
    result = service_failure.run(options, str(tmp_path))
    assert result["published"] == result["placed"] > 50
    assert result["groups_that_differ"] == 0
    assert result["excluded"] == 0
    assert result["audit"] == "kept", result["findings"]
