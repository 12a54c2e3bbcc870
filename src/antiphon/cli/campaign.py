"""`antiphon campaign`: many simulated runs on Spark, one per seed, each audited."""

import json as json_text
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from antiphon._build import describe
from antiphon.cli.auditing import EXIT_CODES, refuse_without_spark, unreachable_hint
from antiphon.cli.console import errors, quiet_standard_output, show, show_json, steps
from antiphon.cli.simulated import SimulatedSeeds, program_digest
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.campaign.chunks import Campaign, open_directory, write_text
from antiphon.pipeline.campaign.contract import Simulator
from antiphon.pipeline.campaign.shrink import RUNS_MAX
from antiphon.pipeline.campaign.summary import Summary, summary_document
from antiphon.pipeline.campaign.tally import CampaignTally
from antiphon.report.campaign import campaign_page
from antiphon.report.campaign_table import campaign_table
from antiphon.simulator.seeds import check_workload
from antiphon.stacks.registry import DEFAULT, offer

TOLD_EVERY_S: Final = 10
"""Seconds between two lines of progress where there is no terminal."""


def campaign(
    stack: Annotated[str, typer.Option(metavar="S", help="The stack that the groups run on.")] = DEFAULT,
    seeds: Annotated[str, typer.Option(metavar="A:B", help="Seeds A to B-1.")] = "0:1000",
    workload: Annotated[
        str, typer.Option(metavar="static/churn/links/all", help="Fixed members, members that join and fail, or both.")
    ] = "all",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Output directory; by default one named after the seeds.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(metavar="M", help="Spark master to run on; by default Spark runs in this process."),
    ] = None,
    keep: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many failing seeds to keep with history and shrunk test.")
    ] = 10,
    shrink_runs: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many runs to spend on shrinking one failing seed.")
    ] = RUNS_MAX,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
) -> None:
    """Run many simulated runs, one per seed, and audit each of them.

    A seed determines everything: members, groups, messages, crashes, partitions, losses. Workload `static` has groups
    with fixed members; `churn` has overlapping groups whose members join, leave, crash and restart; `all` has both.

    The output directory holds the outcome of each seed (results/*.parquet), a page with plots (summary.html) and, for
    failing seeds (failing/), the history and a smaller run that breaks the same promise, as a test for pytest.
    A campaign that was killed continues when it is started again. Exit code: 0 all kept, 1 a promise was broken,
    2 the campaign cannot be run, 3 unknown.

    \b
      antiphon campaign --seeds 0:2000
      antiphon campaign --seeds 0:100000 --workload churn --out big
      antiphon campaign --seeds 17:18 --workload churn --json
      antiphon campaign --seeds 0:1000000 --master spark://cluster:7077 --out /shared/campaign
    """
    first, end = _seeds(seeds)
    check_workload(workload)
    offer(stack)
    plan = Campaign(stack=stack, workload=workload, first=first, end=end, program=program_digest())
    directory = out or Path(f"campaign-{stack}-{workload}-{first}-{end}")
    summary = conduct(
        plan, directory, SimulatedSeeds(workload, stack), master=master, keep=keep, shrink_runs=shrink_runs
    )
    if json:
        show_json(summary_document(summary))
    else:
        show(campaign_table(summary))
    raise typer.Exit(EXIT_CODES[summary.tally.verdict])


def _seeds(text: str) -> tuple[int, int]:
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal()):
        raise UsageError(f"--seeds {text} is not a range of seeds; write two numbers, such as 0:1000")
    return int(first), int(end)


def conduct(
    plan: Campaign, directory: Path, simulator: Simulator, *, master: str | None, keep: int, shrink_runs: int
) -> Summary:
    """Run the campaign to its end and write its page; report progress on standard error."""
    refuse_without_spark("a campaign")
    directory = directory.absolute()
    open_directory(directory, plan)  # refuse mistakes before Spark is started, which takes seconds
    with quiet_standard_output(), steps("starting Spark") as step:
        # Imported here: Spark is an optional dependency, and its import is slow.
        from antiphon.pipeline.campaign.campaign import keep as keep_failing
        from antiphon.pipeline.campaign.campaign import run_campaign
        from antiphon.pipeline.failures import spark_failures
        from antiphon.pipeline.session import make_session

        started_s = time.monotonic()
        progress = _ProgressReport(plan, step, started_s)
        with spark_failures(unreachable_hint(master)):
            spark = make_session(master)
            tally, seeds_now = run_campaign(plan, directory, simulator, spark, progress.report)
            elapsed_s = time.monotonic() - started_s
            if tally.failing and keep:
                step(f"keeping and shrinking {min(keep, len(tally.failing))} of {tally.failed:,} failing seeds")
            kept = keep_failing(tally, directory, simulator, spark, keep, shrink_runs)
        summary = Summary(
            campaign=plan,
            directory=directory,
            build=describe(),
            tally=tally,
            kept=kept,
            situations=simulator.situations(),
            seeds_now=seeds_now,
            elapsed_s=elapsed_s,
        )
        step(f"writing {directory / 'summary.html'}")
        document = json_text.dumps(summary_document(summary), indent=1, ensure_ascii=False)
        write_text(directory / "summary.json", document + "\n")
        write_text(directory / "summary.html", campaign_page(summary))
    return summary


class _ProgressReport:
    """Reports the progress of a campaign: continuously on a terminal, else every TOLD_EVERY_S."""

    def __init__(self, plan: Campaign, step: Callable[[str], None], started_s: float) -> None:
        self._plan = plan
        self._step = step
        self._started_s = started_s
        self._told_s = started_s
        self._told = -1

    def report(self, tally: CampaignTally, before: int) -> None:
        now_s = time.monotonic()
        is_due = self._told < 0 or tally.seeds == self._plan.seeds or now_s - self._told_s >= TOLD_EVERY_S
        if tally.seeds == self._told or not (errors.is_terminal or is_due):
            return
        done = tally.seeds - before
        pace = f", {60 * done / (now_s - self._started_s):,.0f} seeds per minute" if done else ""
        resumed = f" ({before:,} of them before)" if before else ""
        self._step(f"{tally.seeds:,} of {self._plan.seeds:,} seeds{resumed}, {tally.failed:,} failed{pace}")
        self._told, self._told_s = tally.seeds, now_s
