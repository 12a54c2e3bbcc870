"""Two checkouts side by side: the arithmetic of ratios, what is refused, and the steps that are measured."""

from pathlib import Path

import pytest

from bench import side_by_side
from bench.peers.system import ROOT, PeerError
from bench.side_by_side import compare, describe


def test_the_ratio_is_that_of_neighbours_whatever_both_share() -> None:
    """The machine is at times half as fast; old and new suffer alike."""
    machine = [1.0, 0.5, 0.9, 0.45]
    compared = compare("rate", [100 * speed for speed in machine], [110 * speed for speed in machine])
    assert compared.ratio == pytest.approx(1.1)
    assert (compared.low, compared.high) == pytest.approx((1.1, 1.1))


def test_the_interval_is_that_of_student() -> None:
    """Logarithms 0.0, 0.1, 0.2: mean 0.1, standard deviation 0.1, quantile 4.30 with two degrees of freedom."""
    compared = compare("rate", [1.0, 1.0, 1.0], [1.0, 2.718281828**0.1, 2.718281828**0.2])
    half = 4.30 * 0.1 / 3**0.5
    assert compared.low == pytest.approx(2.718281828 ** (0.1 - half))
    assert compared.high == pytest.approx(2.718281828 ** (0.1 + half))
    assert "[" in compared.line()


def test_a_count_has_no_interval() -> None:
    compared = compare("instructions", [200.0], [100.0])
    assert compared.ratio == pytest.approx(0.5)
    assert compared.line().endswith("exact")


@pytest.mark.processes
def test_a_directory_without_antiphon_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PeerError):
        describe(tmp_path)


@pytest.mark.processes
def test_a_checkout_that_is_not_compiled_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy of the package without compiled files."""
    source = Path(ROOT, "src", "antiphon")
    for path in source.rglob("*.py"):
        target = tmp_path / "src" / "antiphon" / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text())
    with pytest.raises(SystemExit, match=r"pure Python \(never compiled.*make compile"):
        side_by_side.main(["--old", str(tmp_path), "--new", str(tmp_path)])
