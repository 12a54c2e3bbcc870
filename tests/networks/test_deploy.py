"""docs/deploy.md, followed by the letter: three sealed members in three namespaces, restarted, audited."""

from pathlib import Path

import pytest

from tests.networks.network import missing
from tests.networks.pages import commands_of, files_of, follow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deploy.md"
FOLLOWED_S = 400.0
"""Some 30 s on a quiet machine with a compiled core."""

pytestmark = [pytest.mark.networks, pytest.mark.processes, pytest.mark.alone]


def test_the_page_leads_from_nothing_to_three_sealed_members(tmp_path: Path) -> None:
    why = missing()
    if why is not None:
        pytest.skip(why)
    done = follow(PAGE.read_text(), tmp_path, FOLLOWED_S)
    logs = "\n".join(log.read_text() for log in sorted(tmp_path.glob("*.log")))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs}"
    assert '"ready": true' in done.stdout
    verdicts = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if len(line.split()) >= 4}
    for guarantee in ("creation", "fifo", "causal", "total", "view_agreement", "view_synchrony", "primary"):
        assert verdicts[guarantee] == "kept", done.stdout
    assert "broken" not in verdicts.values()
    assert logs.count("event=node_started") == 4
    assert logs.count("sealed=yes") == 4
    assert logs.count("settled=yes") == 4, "a member did not leave in good order"
    assert (tmp_path / "history").stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "history").iterdir())


def test_the_page_has_commands_and_files() -> None:
    page = PAGE.read_text()
    assert set(files_of(page)) == {"ticker.py", "member.toml"}
    assert "antiphon key new cluster.key" in commands_of(page)
    assert "netns delete" in commands_of(page, cleanup=True)
    assert "netns delete" not in commands_of(page)
