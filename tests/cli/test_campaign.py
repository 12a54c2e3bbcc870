"""`antiphon campaign`: exit codes, one JSON document, resuming after kill -9, a sentence for what cannot be done."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from antiphon.pipeline.campaign.chunks import CHUNK_SEEDS
from antiphon.stacks.registry import OFFERS
from tests.cli.conftest import Run

CHUNKS: Final = len(os.sched_getaffinity(0)) + 1
"""A core runs one at a time, so when the first is finished there is one that has hardly begun."""
SEEDS: Final = CHUNKS * CHUNK_SEEDS
HANGS_S: Final = 900


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--seeds", "7"), "--seeds 7 is not a range of seeds; write two numbers, such as 0:1000"),
        (("--seeds", "9:9"), "there are no seeds 9:9; name the first, and the one after the last"),
        (("--workload", "rain"), "there is no workload 'rain'; choose one of: static, churn, links, all"),
        (("--stack", "nonesuch"), "there is no stack 'nonesuch'; the stacks are: STACKS"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(
    run: Run, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    outcome = run("campaign", "--out", str(tmp_path / "out"), *words)
    assert (outcome.code, outcome.out, outcome.err) == (
        2,
        "",
        f"antiphon: {sentence.replace('STACKS', ', '.join(OFFERS))}\n",
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_a_campaign_that_was_killed_goes_on_where_it_was(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("campaign", "--seeds", f"0:{SEEDS}", "--workload", "static", "--out", str(out), "--json")
    script = "from antiphon.cli.main import main; main()"
    killed = subprocess.Popen(
        [sys.executable, "-c", script, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        # How long a chunk takes depends on what else the machine does: what counts is that the campaign is at work.
        hangs_s = time.monotonic() + HANGS_S
        while not list(out.glob("results/chunk-*.parquet")):
            assert time.monotonic() < hangs_s, "no chunk was finished"
            assert killed.poll() is None, "it ended before it could be killed"
            time.sleep(0.05)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)  # with its Java and its workers
        killed.wait()
    before = {file.name: file.stat().st_mtime_ns for file in out.glob("results/chunk-*.parquet")}
    assert 0 < len(before) < CHUNKS, "it was killed in the middle"

    outcome = run(*words)
    assert outcome.code == 0
    document = json.loads(outcome.out)
    assert (document["verdict"], document["seeds"], document["kept"]) == ("kept", SEEDS, SEEDS)
    # A worker that outlived its Java may still have finished its chunk.
    assert 0 < document["seeds_now"] <= SEEDS - CHUNK_SEEDS * len(before)
    after = {file.name: file.stat().st_mtime_ns for file in out.glob("results/chunk-*.parquet")}
    assert len(after) == CHUNKS
    assert {name: after[name] for name in before} == before, "what was done was not done again"
    assert (out / "summary.html").read_text().startswith("<!DOCTYPE html>")

    other = run(*words[:2], f"0:{SEEDS + 1}", *words[3:])
    assert (other.code, other.out) == (2, "")
    assert f"another campaign: end {SEEDS} and not {SEEDS + 1}; name another directory" in other.err
