from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
#: Pages whose links are looked at; the Python blocks of CONTRIBUTING.md are several files and have their own test.
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
#: Where files of this tree are on the web: links of the README must work wherever it is shown.
REPOSITORY = re.compile(
    r"https://(?:github\.com/tg-crepe/tg-crepe/(?:blob|tree|raw)|raw\.githubusercontent\.com/tg-crepe/tg-crepe)/main/(.+)"
)
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


def links(page: Path) -> list[str]:
    """The targets of the links and pictures of a page."""
    return re.findall(r"\]\(([^)\s]+)[^)]*\)", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_a_file_of_the_tree_and_a_heading_in_it(page):
    for link in links(page):
        elsewhere = REPOSITORY.fullmatch(link)
        if "://" in link and elsewhere is None:
            assert "tg-crepe/tg-crepe" not in link, f"{page.name} links to {link}, which no test can follow"
            continue
        target, _, anchor = (elsewhere[1] if elsewhere else link).partition("#")
        path = ROOT / target if elsewhere else page.parent / target if target else page
        assert path.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(path), f"{page.name} links to {link}, which has no such heading"


def test_the_readme_is_short_and_works_away_from_the_tree():
    readme = ROOT / "README.md"
    assert len(readme.read_text(encoding="utf-8").splitlines()) <= 150
    assert [link for link in links(readme) if "://" not in link] == []
