"""`antiphon campaign`: exit codes, one JSON document, resuming after kill -9, a sentence for what cannot be done."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from antiphon.stacks.registry import OFFERS
from tests.cli.conftest import Run


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
    words = ("campaign", "--seeds", "0:100", "--workload", "static", "--out", str(out), "--json")
    script = "from antiphon.cli.main import main; main()"
    killed = subprocess.Popen(
        [sys.executable, "-c", script, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline_s = time.monotonic() + 120
        while not list(out.glob("results/chunk-*.parquet")):
            assert time.monotonic() < deadline_s, "no chunk was finished"
            assert killed.poll() is None, "it ended before it could be killed"
            time.sleep(0.05)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)  # with its Java and its workers
        killed.wait()
    before = {file.name: file.stat().st_mtime_ns for file in out.glob("results/chunk-*.parquet")}
    assert 0 < len(before) < 4, "it was killed in the middle"

    outcome = run(*words)
    assert outcome.code == 0
    document = json.loads(outcome.out)
    assert (document["verdict"], document["seeds"], document["kept"]) == ("kept", 100, 100)
    # A worker that outlived its Java may still have finished its chunk.
    assert 0 < document["seeds_now"] <= 100 - 25 * len(before)
    after = {file.name: file.stat().st_mtime_ns for file in out.glob("results/chunk-*.parquet")}
    assert len(after) == 4
    assert {name: after[name] for name in before} == before, "what was done was not done again"
    assert (out / "summary.html").read_text().startswith("<!DOCTYPE html>")

    other = run(*words[:2], "0:101", *words[3:])
    assert (other.code, other.out) == (2, "")
    assert "another campaign: end 100 and not 101; name another directory" in other.err
