"""Brings into the built pages what stands outside docs/: README, CONTRIBUTING, CHANGELOG, licence and pictures.

In the tree their links are relative to where they stand, so that they work where the files are read; here they are
rewritten to where the files stand in the built pages.
"""

from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent
PAGES: Final = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
PICTURES: Final = "bench/results"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that stand elsewhere in the tree."""
    for source, target in PAGES.items():
        text = (ROOT / source).read_text().replace("](docs/", "](").replace("](LICENSE)", "](LICENSE.txt)")
        files.append(File.generated(config, target, content=text))
    files.append(File.generated(config, "LICENSE.txt", content=(ROOT / "LICENSE").read_text()))
    for picture in sorted((ROOT / PICTURES).glob("*.svg")):
        files.append(File.generated(config, f"{PICTURES}/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let a page's links to pictures outside docs/ point to their copies."""
    return markdown.replace(f"](../{PICTURES}/", f"]({PICTURES}/")
