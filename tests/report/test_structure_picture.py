"""The picture and the tables of a structure: all of it is there, bounded, escaped, and a browser can show it."""

import xml.etree.ElementTree as ET
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from antiphon.pipeline.structure.finding import Structure, plan_structure
from antiphon.report.structure_picture import GROUPS_MAX, PROCESSES_MAX, RADIUS_MAX, structure_picture
from antiphon.report.structure_table import LINES_MAX, structure_table
from tests.pipeline.structure.traffic_samples import OFFICE, draw_members, traffic_of
from tests.report.browser import CHROMIUM, browser
from tests.report.test_html_chromium import PNG_MAGIC

SVG = "{http://www.w3.org/2000/svg}"
OFFICE_MEMBERS = {group: frozenset(names) for group, names in OFFICE.items()}


def structure_of(members: dict[str, frozenset[str]]) -> Structure:
    return plan_structure(traffic_of(members, Random(2)))


def printed(structure: Structure) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(structure_table(structure))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_picture_shows_every_group_overlap_and_membership() -> None:
    structure = structure_of(OFFICE_MEMBERS)
    root = ET.fromstring(structure_picture(structure))
    assert len(root.findall(f".//{SVG}circle")) == len(OFFICE)
    lines = root.findall(f".//{SVG}line[@x1]")
    overlaps = [line for line in lines if "overlap" in line.get("class", "")]
    assert len(overlaps) == len(structure.graph.overlaps)
    assert sum(line.get("class") == "overlap" for line in overlaps) == 2  # strong ones
    members = [box for box in root.findall(f".//{SVG}rect") if box.get("class") == "member"]
    assert len(members) == sum(len(names) for names in OFFICE.values())
    assert structure_picture(structure) == structure_picture(structure_of(OFFICE_MEMBERS))


@pytest.mark.parametrize("seed", range(8))
def test_everything_lies_within_the_picture(seed: int) -> None:
    random = Random(seed)
    structure = structure_of(draw_members(random, random.choice((1, 2, 30, 90)), random.choice((2, 25, 120))))
    root = ET.fromstring(structure_picture(structure))
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    circles = root.findall(f".//{SVG}circle")
    assert 0 < len(circles) <= GROUPS_MAX
    for circle in circles:
        assert 0 <= float(circle.get("cx", "")) - RADIUS_MAX <= width - 2 * RADIUS_MAX
        assert 0 <= float(circle.get("cy", "")) - RADIUS_MAX <= height - 2 * RADIUS_MAX
    for box in root.findall(f".//{SVG}rect[@x]"):
        assert float(box.get("x", "")) + float(box.get("width", "")) <= width
        assert float(box.get("y", "")) + float(box.get("height", "")) <= height


def test_names_that_look_like_markup_stay_names() -> None:
    structure = structure_of({"<b>&\x1b[31m": frozenset(("<i>",)), "[red]": frozenset(("<i>", "x"))})
    texts = [text.text for text in ET.fromstring(structure_picture(structure)).iter(f"{SVG}text")]
    assert "<b>&\N{REPLACEMENT CHARACTER}[31m" in texts
    assert "[red]" in printed(structure)
    assert "\x1b[31m" not in printed(structure)


def test_long_tables_and_large_pictures_say_what_they_leave_out() -> None:
    many = {f"g{place:03}": frozenset((f"p{place}", f"q{place}")) for place in range(GROUPS_MAX + 5)}
    structure = structure_of(many)
    assert f"… and {len(many) - LINES_MAX} more" in printed(structure)
    picture = structure_picture(structure)
    assert "5 groups with fewer messages are not drawn" in picture
    assert f"{2 * len(many) - PROCESSES_MAX} more processes are not drawn" in picture


@pytest.mark.processes
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_a_browser_shows_the_picture(tmp_path: Path) -> None:
    file = tmp_path / "picture.svg"
    file.write_text(structure_picture(structure_of(OFFICE_MEMBERS)))
    with browser() as chromium:
        chromium.open(file)
        picture = chromium.picture()
    assert picture.startswith(PNG_MAGIC)
    assert len(picture) > 10_000  # an empty page is smaller
