"""Import of transactional histories: which rows they become, and that each bad pattern breaks what it should."""

from pathlib import Path
from random import Random

import pytest

from antiphon.history.formats.errors import MalformedLogError
from antiphon.history.formats.importing import Imported, ImportOptions
from antiphon.history.formats.plume_import import import_plume
from antiphon.kernel.errors import UsageError
from antiphon.pipeline.reference import audit
from tests.history.histories import SAMPLES, summary

OPTIONS = ImportOptions(run="r")


def import_operations(tmp_path: Path, text: str) -> tuple[Path, Imported]:
    """Import operations as words: `w1=5` writes 5 to key 1; `s0:` begins a transaction of session 0."""
    lines: list[str] = []
    session = number = -1
    for word in text.split():
        if word.endswith(":"):
            session, number = int(word[1:-1]), number + 1
        elif word == "abort":
            lines = [line.rsplit(",", 1)[0] + ",-1)" if line.endswith(f",{number})") else line for line in lines]
        else:
            key, value = word[1:].split("=")
            lines.append(f"{word[0]}({key},{value},{session},{number})")
    source = tmp_path / "history.txt"
    source.write_text("\n".join(lines))
    return tmp_path / "h", import_plume(source, tmp_path / "h", OPTIONS)


def broken(history: Path) -> set[str]:
    return {finding.guarantee for finding in audit(history).findings if finding.verdict == "broken"}


def test_the_sample(tmp_path: Path) -> None:
    result = import_plume(SAMPLES / "plume.txt", tmp_path, OPTIONS)
    assert result == Imported(runs=1, logs=4, events=9)
    rows = [words for words in summary(tmp_path) if ":" in words]
    assert rows == [
        "initial/1 send store:initial/1#1-1",
        "s0/1 deliver store:initial/1#1-1",
        "s0/1 send store:s0/1#1-1 to s1/1,s2/1",
        "s1/1 deliver store:initial/1#1-1",
        "s1/1 deliver store:s0/1#1-1 to s1/1,s2/1",
        "s1/1 send store:s1/1#1-1 to s2/1",
        "s2/1 deliver store:initial/1#1-1",
        "s2/1 deliver store:s0/1#1-1 to s1/1,s2/1",
        "s2/1 deliver store:s1/1#1-1 to s2/1",
    ]
    verdicts = {finding.guarantee: finding.verdict for finding in audit(tmp_path).findings}
    assert verdicts == {"creation": "kept", "duplication": "kept", "fifo": "kept", "causal": "kept"}


@pytest.mark.parametrize(
    "text",
    [
        # x is read after y, which depends on it: a state, not a stream.
        "s0: w1=1 s1: r1=1 w2=1 s2: r2=1 s2: r1=1",
        # Of two concurrent writes either may be read, by each session in its own order.
        "s0: w1=1 s1: w1=2 s2: r1=1 s2: r1=2 s3: r1=2 s3: r1=1",
        # A transaction reads what it wrote itself.
        "s0: w1=1 r1=1 w1=2 r1=2 s1: r1=2",
        # The initial value, while nothing else is known.
        "s0: r1=0 w1=1 s1: r1=0 s1: r1=1",
        # A long fork.
        "s0: w1=1 s1: w2=1 s2: r1=1 r2=0 s3: r2=1 r1=0",
        # Lost update: causal consistency allows it.
        "s0: w1=1 s1: r1=1 w1=2 s2: r1=1 w1=3",
    ],
)
def test_causal_histories_are_kept(tmp_path: Path, text: str) -> None:
    history, result = import_operations(tmp_path, text)
    assert result.remarks == ()
    assert audit(history).verdict == "kept"


@pytest.mark.parametrize(
    ("guarantee", "text"),
    [
        # Thin air; aborted; overwritten by its own transaction; read before it was written.
        ("creation", "s0: r1=7"),
        ("creation", "s0: w1=7 abort s1: r1=7"),
        ("creation", "s0: w1=7 w1=8 s1: r1=7"),
        ("creation", "s0: r1=7 w1=7"),
        # A stale read: of another session's write, of half a transaction, in either order.
        ("causal", "s0: w1=1 s1: r1=1 w1=2 w2=2 s2: r2=2 s2: r1=1"),
        ("causal", "s0: w1=1 w2=1 s1: r1=1 w1=2 w2=2 s2: r1=2 r2=1"),
        ("causal", "s0: w1=1 w2=1 s1: r1=1 w1=2 w2=2 s2: r1=1 r2=2"),
        ("causal", "s0: w1=1 s0: w1=2 w2=2 s1: r2=2 s1: r1=1"),
        # Back to what was read before; to the initial value.
        ("duplication", "s0: w1=1 s1: r1=1 w1=2 s2: r1=1 s2: r1=2 s2: r1=1"),
        ("duplication", "s0: w1=1 s1: r1=1 w2=2 s2: r2=2 s2: r1=0"),
        ("duplication", "s0: w1=1 s0: r1=0"),
        ("duplication", "s0: w1=1 s1: r1=1 w1=2 s1: r1=1"),
        # Each is in the past of the other.
        ("causal", "s0: r2=1 w1=1 s1: r1=1 w2=1"),
        ("causal", "s0: r2=1 w1=1 s1: r3=1 w2=1 s2: r1=1 w3=1 s3: r1=1 r2=1 r3=1"),
    ],
)
def test_each_bad_pattern_is_found(tmp_path: Path, guarantee: str, text: str) -> None:
    history, _ = import_operations(tmp_path, text)
    assert guarantee in broken(history), summary(history)


def test_what_it_finds_is_told(tmp_path: Path) -> None:
    _, result = import_operations(tmp_path, "s0: w1=1 w1=2 r1=1 s1: w3=1 r3=0 s1: r3=0")
    assert result.remarks == (
        "1 values were read that no committed transaction left behind, first 1 of key 1; they are messages of 'nobody'",
        "1 reads are stale: their past overwrites what they return",
        "2 reads do not return what their own transaction had written, the first on line 3; the audit does not judge "
        "that",
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_causal_store_is_never_blamed_and_a_bad_read_always(tmp_path: Path, seed: int) -> None:
    """A store that applies each transaction behind its causes; then one read goes back to what was overwritten."""
    random = Random(seed)
    sessions = 4
    applied: list[list[int]] = [[] for _ in range(sessions)]
    sent: list[tuple[int, dict[int, int], list[int]]] = []
    state: list[dict[int, tuple[int, int]]] = [{} for _ in range(sessions)]
    words: list[str] = []
    value = 0
    for _ in range(60):
        session = random.randrange(sessions)
        for message, (_, writes, causes) in enumerate(sent):
            ready = message not in applied[session] and set(causes) <= set(applied[session])
            if ready and random.random() < 0.5:
                applied[session].append(message)
                # The last writer wins, by the place of the transaction: the same choice everywhere.
                for key, written in writes.items():
                    state[session][key] = max(state[session].get(key, (-1, 0)), (message, written))
        words.append(f"s{session}:")
        words += [f"r{key}={state[session].get(key, (0, 0))[1]}" for key in random.sample(range(5), 2)]
        if random.random() < 0.6:
            value += 1
            key = random.randrange(5)
            words.append(f"w{key}={value}")
            sent.append((session, {key: value}, list(applied[session])))
            applied[session].append(len(sent) - 1)
            state[session][key] = (len(sent) - 1, value)
    history, result = import_operations(tmp_path, " ".join(words))
    assert result.remarks == ()
    assert audit(history).verdict == "kept"
    (tmp_path / "again").mkdir()
    bad, result = import_operations(
        tmp_path / "again", " ".join([*words, "s8: w7=901 s8: w7=902 s9: r7=902 s9: r7=901"])
    )
    assert broken(bad) & {"causal", "duplication", "fifo"}


Step = tuple[int, list[tuple[int, int]], dict[int, int]]
"""Session, reads of other transactions, writes."""


def is_causal(steps: list[Step]) -> bool:
    """The bad patterns, straight from their definitions, by the transitive closure of session order and reads-from."""
    writers = {(key, value): place for place, step in enumerate(steps) for key, value in step[2].items()}
    before = [[one[0] == other[0] and i < j for j, other in enumerate(steps)] for i, one in enumerate(steps)]
    for place, (_, reads, _) in enumerate(steps):
        for cell in reads:
            if cell not in writers and cell[1] != 0:
                return False  # out of thin air
            if cell in writers:
                before[writers[cell]][place] = True
    for middle in range(len(steps)):
        for row in before:
            if row[middle]:
                row[:] = [one or other for one, other in zip(row, before[middle], strict=True)]
    if any(before[place][place] for place in range(len(steps))):
        return False  # a cycle
    for place, (_, reads, _) in enumerate(steps):
        for key, value in reads:
            writer = writers.get((key, value))
            for other, step in enumerate(steps):
                overwrites = other != writer and key in step[2] and before[other][place]
                if overwrites and (writer is None or before[writer][other]):
                    return False
    return True


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 500), marks=pytest.mark.hunt)])
def test_verdicts_are_those_of_the_definition(tmp_path: Path, seeds: range) -> None:
    found = [0, 0]
    for seed in seeds:
        random = Random(seed)
        steps: list[Step] = []
        for place in range(random.randint(2, 8)):
            writes = {key: 10 * place + key + 1 for key in range(3) if random.random() < 0.4}
            steps.append((random.randrange(3), [], writes))
        for place, (_, reads, writes) in enumerate(steps):
            others = [(key, v) for i, s in enumerate(steps) for key, v in s[2].items() if i != place]
            chosen = [*others, *((key, 0) for key in range(3)), *([(0, 999)] if seed % 9 == 0 else [])]
            picked = dict(random.sample(chosen, random.randint(0, 2)))
            reads += [cell for cell in picked.items() if cell[0] not in writes]
        words = [
            " ".join([f"s{session}:", *(f"r{k}={v}" for k, v in reads), *(f"w{k}={v}" for k, v in writes.items())])
            for session, reads, writes in steps
            if reads or writes
        ]
        if not words:
            continue
        folder = tmp_path / str(seed)
        folder.mkdir()
        history, _ = import_operations(folder, " ".join(words))
        causal = is_causal(steps)
        found[causal] += 1
        assert bool(broken(history)) != causal, (seed, words, broken(history))
    assert min(found) > 3


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("r(1,2,3,4)\nx(1,2,3,4)\n", 2, "expected r or w(KEY,VALUE,SESSION,TRANSACTION), not 'x(1,2,3,4)'"),
        ("r(1,2,3)\n", 1, "expected r or w"),
        ("w(1,1,0,0)\nw(1,1,1,1)\n", 2, "value 1 of key 1 is written on line 1 already"),
        ("w(1,1,0,0)\nw(1,2,1,0)\n", 2, "transaction 0 is one of session 0 (line 1)"),
        ("w(1,1,0,-1)\n", 0, "it holds no committed transaction"),
    ],
)
def test_a_line_that_is_wrong_is_refused(tmp_path: Path, text: str, line: int, words: str) -> None:
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(MalformedLogError) as caught:
        import_plume(tmp_path / "x.txt", tmp_path / "h", OPTIONS)
    assert (caught.value.line, words in caught.value.reason) == (line, True)


def test_no_total_order_is_imported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not safe"):
        import_plume(SAMPLES / "plume.txt", tmp_path, ImportOptions(run="r", level="safe"))
