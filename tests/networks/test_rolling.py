"""A rolling update to a new wire version under load, by real processes: nobody else is ever not ready, none is lost."""

from pathlib import Path

import pytest

from antiphon.kernel.wire_versions import VERSION, VERSION_MIN
from antiphon.pipeline.reference import audit
from tests.networks.rolling import roll

pytestmark = [pytest.mark.processes, pytest.mark.alone, pytest.mark.hunt]


def test_a_rolling_update_under_load(tmp_path: Path) -> None:
    result = roll(tmp_path / "roll", 3)
    assert result.failed == []
    assert result.asked > 0
    assert set(result.exits) == {0}
    assert result.versions[0] == VERSION_MIN
    assert result.versions[-1] == VERSION
    assert audit(tmp_path / "roll" / "history").verdict == "kept"
