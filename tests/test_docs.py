from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
#: What the pages use beyond the package itself.
PACKAGES = ("sklearn", "matplotlib", "jinja2", "PIL")


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """The line and the code of every Python block."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^([ \t]*)```python[^\n]*\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(2)].count("\n") + 1, textwrap.dedent(match[2])) for match in found]


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    for package in PACKAGES:
        pytest.importorskip(package, reason=f"the pages use {package}, extra 'all'")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for line, code in python_blocks(page):
        # Blank lines in front, so that a failure names the line of the page.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)


def test_links_between_the_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
