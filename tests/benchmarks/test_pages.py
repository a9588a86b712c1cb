"""Every measured figure of the pages is what the CSV files say."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("sklearn")

import pages
from contest import tables
from shared import machine
from shared.page import parts


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_a_page_says_what_its_csv_files_say(page):
    assert pages.fill_pages([page], machine.RESULTS, check=True) == []


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_every_part_of_a_page_has_a_maker_and_an_end(page):
    text = page.read_text(encoding="utf-8")
    names = parts(text)
    assert set(names) <= set(pages.MAKERS)
    assert len(names) == len(set(names))
    assert names == re.findall(r"<!-- end (\S+) -->", text)


def test_the_readme_has_the_five_questions_and_no_figure_in_a_table_of_its_own():
    text = pages.PAGES[0].read_text(encoding="utf-8")
    tables = {"energies", "features", "labelling", "certainty", "time"}
    assert set(parts(text)) == {*tables, "keys_pressed", "standing"}
    outside = re.sub(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", "", text, flags=re.DOTALL)
    assert [line for line in outside.splitlines() if line.startswith("|") and re.search(r"\d\.\d", line)] == []


def test_another_figure_in_the_csv_is_seen_and_written(tmp_path):
    page, folder = tmp_path / "page.md", tmp_path / "results"
    page.write_text(
        "a\n<!-- begin time -->\n<!-- end time -->\n<!-- begin certainty -->\nold\n<!-- end certainty -->\n"
    )
    folder.mkdir()

    def measured(seconds: float) -> None:
        rows = [
            {"part": "call", "what": "CREPE", "round": i, "seconds": 2 * seconds + i, "processor": seconds + i}
            for i in range(3)
        ]
        machine.write_csv([{**row, "note": "error 19.5 %", "load": 2.0} for row in rows], folder / "end_to_end.csv")

    measured(4.0)
    assert pages.fill_pages([page], folder, check=True) == ["page.md: time"]
    assert "old" in page.read_text()  # nothing was written
    assert pages.fill_pages([page], folder) == ["page.md: time"]
    assert "| **graph given, CREPE** | 5.0 | 6.0 | 9.0 | 10.0 | 19.5 |" in page.read_text()
    assert "old" in page.read_text()  # its CSV file is missing: it stays as it is
    assert pages.fill_pages([page], folder, check=True) == []
    measured(5.0)
    assert pages.fill_pages([page], folder, check=True) == ["page.md: time"]


def write_features(folder, stem: str, data: str, draw: dict, ours: str) -> None:
    errors = {ours: (9.5, 4.5), "kNN": (19.5, 4.5), "label spreading": (12.0, 9.5)}
    rows = [
        {data: place, **draw, "seed": seed, "method": name, "unlabelled": 100, "error": error[i], "seconds": 1.0}
        for i, place in enumerate(("x", "y"))
        for name, error in errors.items()
        for seed in range(2)
    ]
    machine.write_csv(rows, folder / f"{stem}.csv")


def test_the_table_of_features_joins_three_contests(tmp_path):
    write_features(tmp_path, "contest_features", "family", {"draw": "5 per class"}, "CrepeClassifier")
    assert "sets of images" not in tables.features(tmp_path)  # none yet
    write_features(tmp_path, "contest_images", "data", {"labels": 5}, "crepe + head")
    text = tables.features(tmp_path)
    assert "| **CREPE + head**, the default | 1.00 | 1.2 | 1.00 (x, 5 per class) | – | 1.00 | 1.2 |" in text
    assert "| kNN | 1.41 | 2.2 | 2.00 (x, 5 per class) | 1 |" in text  # 20 over 10, and 5 over 5
    assert "| linear SVM | – |" in text
    assert "On citation graphs" not in text
    rows = [
        {"graph": "Cora", "draw": "20 per class", "seed": seed, "method": name, "error": error + seed * step}
        for name, error, step in (("GCN + CREPE", 18.0, 1.0), ("GCN", 20.0, 0.5), ("GAT", 25.0, 1.0))
        for seed in range(3)
    ]
    machine.write_csv(rows, tmp_path / "contest_graphs.csv")
    sentence = "have an error of 19.0 on Cora (best other: GCN 20.5, p 0.04) %, seeds 0 to 2."
    assert sentence in tables.features(tmp_path)


def test_the_large_tables_are_those_of_the_reports(tmp_path):
    write_features(tmp_path, "contest_features", "family", {"draw": "5 per class"}, "CrepeClassifier")
    write_features(tmp_path, "contest_images", "data", {"labels": 5}, "crepe + head")
    for name, ours in (("all_features", "CrepeClassifier"), ("all_images", "crepe + head")):
        text = pages.MAKERS[name](tmp_path)
        assert f"| {ours} | 1.000 | 1.2 | 1.00 (x, 5 per class) | 2 of 2 | – |" in text
        assert "| by draw | 5 per class |" in text
    rows = [
        {"data": "x", "method": name, "seed": seed, "keys": keys, "error": error + seed}
        for name, error in (("label", 3.0), ("random", 5.0))
        for seed in range(2)
        for keys in (10, 20)
    ]
    machine.write_csv(rows[:-1], tmp_path / "labelling.csv")
    text = pages.MAKERS["all_labelling"](tmp_path)
    assert "| x: label | **3.50** | **3.50** | 2 |" in text
    assert "| x: random | 5.50 | 5.00 | 2 |" in text
    for name in ("all_graphs", "all_certainty", "all_energies", "hybrid_network"):
        assert pages.MAKERS[name](tmp_path) is None


def test_a_method_with_fewer_sessions_is_compared_in_those_alone(tmp_path):
    rows = [
        {"data": "x", "method": name, "seed": seed, "keys": keys, "error": error + seed}
        for name, error, seeds in (("label", 3.0, 2), ("random", 5.0, 2), ("label, pages of 24", 4.0, 1))
        for seed in range(seeds)
        for keys in (10, 20)
    ]
    machine.write_csv(rows, tmp_path / "labelling.csv")
    text = tables.labelling(tmp_path)
    assert "| random | 5.5 | 5.5 |" in text
    assert "| **`tg-crepe label, pages of 24`**" not in text
    assert "In 1 of the sessions, after 20 keys: label, pages of 24 4.0, label 3.0." in text


def test_the_table_of_times_has_medians_the_worst_and_the_error(tmp_path):
    own = {"part": "call", "what": "CREPE", "note": "error 18.95 %", "load": 1}
    rows = [{**own, "round": i, "seconds": 2 + i, "processor": 4 + i} for i in range(3)]
    machine.write_csv(rows, tmp_path / "end_to_end.csv")
    assert "| **graph given, CREPE** | 5.0 | 6.0 | 3.0 | 4.0 | 18.9 |" in tables.times(tmp_path)
    assert "| call: CREPE | 5.00 (4.00–6.00) | 3.00 (2.00–4.00) | 3 | error 18.95 % |" in pages.MAKERS["all_times"](
        tmp_path
    )
