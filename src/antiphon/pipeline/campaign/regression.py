"""A shrunk run as a regression test: a file that pytest runs, with the whole script in it."""

import json
from pprint import pformat
from textwrap import fill
from typing import TYPE_CHECKING, Final

from antiphon.pipeline.campaign.contract import Script

if TYPE_CHECKING:
    from antiphon.pipeline.campaign.failing import Kept

_WIDTH: Final = 118

_TEMPLATE: Final = """\
{docstring}

from antiphon.pipeline.campaign.judge import judge
from antiphon.simulator.script import script_of
from antiphon.simulator.script_run import run_script

# fmt: off
SCRIPT = {script}
# fmt: on


def test_{name}() -> None:
    judgement = judge(run_script(script_of(SCRIPT)))
    assert [str(problem) for problem in judgement.problems] == []
"""


def regression_test(kept: "Kept", script: Script) -> str:
    """The source of the test."""
    processes = "1 process" if kept.shrunk_processes == 1 else f"{kept.shrunk_processes} processes"
    story = (
        f"Found by a campaign: {kept.kind} {kept.seed} left `{kept.guarantee}` {kept.verdict}. Its {kept.events:,} "
        f"events were shrunk to these {kept.shrunk_events:,}, of {processes}. What is seen in them:"
    )
    told = f"{fill(story, _WIDTH)}\n\n{fill(_plain(kept.explanation), _WIDTH)}\n"
    return _TEMPLATE.format(
        docstring=f'"""{told}"""',
        # Through JSON, so that what is tested is what is kept: lists, no tuples.
        script=pformat(json.loads(json.dumps(script)), width=_WIDTH, sort_dicts=False),
        name=f"{kept.kind}_{kept.seed}_keeps_{kept.guarantee}",
    )


def _plain(text: str) -> str:
    """Any text as part of a docstring."""
    return text.replace("\\", "\\\\").replace('"""', "'''")
