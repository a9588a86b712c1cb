"""The measured parts of the page on choosing, of tables whose means are known."""

from __future__ import annotations

from itertools import chain

import pytest

pytest.importorskip("sklearn")

import pages
from shared import few_labels, machine
from shared.families import GRAPHS
from shared.features_job import FAMILIES, OURS


def feature_row(family: str, count: int, seed: int, error: float, method: str = OURS) -> dict[str, object]:
    return {"family": family, "draw": f"{count} per class", "seed": seed, "method": method, "error": error}


def write_contests(folder) -> None:
    """Two tables, one that is too small, and texts with 1 and 5 labels per class; and two citation graphs."""
    rows = [
        feature_row(family, count, seed, base / count + seed)
        for family, base in (("segment", 40.0), ("vowel", 60.0), ("TREC", 80.0))
        for count in (1, 5)
        for seed in (0, 1)
    ]
    rows += [feature_row("wine", 1, 0, 99.0), feature_row("segment", 5, 0, 99.0, "kNN")]
    rows += [{**feature_row("segment", 1, 0, 99.0), "draw": "skewed counts"}]
    machine.write_csv(rows, folder / "contest_features.csv")
    graphs = [
        feature_row(family, count, 7, base / count + 10 * (method == "lgc"), method)
        for family, base in (("Cora", 30.0), ("PubMed", 50.0), ("CiteSeer with weak edges", 99.0), ("segment", 99.0))
        for count in (1, 5)
        for method in ("crepe", "lgc")
    ]
    machine.write_csv(graphs, folder / "contest_energies.csv")


def test_every_family_of_the_contest_is_of_one_kind():
    named = list(chain.from_iterable(few_labels.KINDS.values()))
    assert len(named) == len(set(named))
    assert set(named) == set(FAMILIES) | (set(GRAPHS) - {"CiteSeer with weak edges"})


def test_errors_are_means_over_seeds_and_then_over_the_families_of_a_kind(tmp_path):
    write_contests(tmp_path)
    curves = few_labels.Curves(few_labels.default_rows(tmp_path))
    assert curves.counts == [1, 5]
    assert curves.families["segment"] == [40.5, 8.5]  # not the kNN, nor the skewed draw
    assert curves.mean("tables") == [50.5, 10.5]
    assert curves.mean("texts") == [80.5, 16.5]
    assert curves.mean("citation graphs") == [40.0, 8.0]  # CREPE's alone, without the graph of weak edges
    assert list(curves.kinds) == ["texts", "tables", "citation graphs"]
    assert curves.left_out == ["wine"]
    assert (curves.seeds(given=False), curves.seeds(given=True)) == ([0, 1], [7])


def test_the_table_and_the_picture_are_those_numbers_and_are_made_anew_when_they_change(tmp_path):
    pytest.importorskip("matplotlib")
    images, folder, page = tmp_path / "images", tmp_path / "results", tmp_path / "page.md"
    images.mkdir()
    folder.mkdir()
    page.write_text("<!-- begin few_labels -->\n<!-- end few_labels -->\n")
    assert pages.fill_pictures(images, folder) == []  # nothing is measured yet
    write_contests(folder)
    assert pages.fill_pages([page], folder) == ["page.md: few_labels"]
    text = page.read_text()
    assert "| error in % | data sets | 1 per class | 5 per class |" in text
    assert "| tables | 2 | 50.5 | 10.5 |" in text
    assert "| citation graphs | 2 | 40.0 | 8.0 |" in text
    assert "Left out, with too few rows for 5 per class: wine." in text

    assert pages.fill_pictures(images, folder, check=True) == ["few_labels.png"]
    assert list(images.iterdir()) == []
    assert pages.fill_pictures(images, folder) == ["few_labels.png"]
    picture = images / "few_labels.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert pages.fill_pictures(images, folder, check=True) == []
    csv = folder / "contest_features.csv"
    csv.write_text(
        csv.read_text().replace("vowel,5 per class,1,CrepeClassifier,13", "vowel,5 per class,1,CrepeClassifier,14")
    )
    assert pages.fill_pictures(images, folder, check=True) == ["few_labels.png"]


def test_pictures_of_the_commands_are_copied(tmp_path):
    images, folder = tmp_path / "images", tmp_path / "results"
    images.mkdir()
    folder.mkdir()
    (folder / "contest_graphs.png").write_bytes(b"one")
    assert pages.fill_pictures(images, folder) == ["graphs.png"]
    assert (images / "graphs.png").read_bytes() == b"one"
    assert pages.fill_pictures(images, folder) == []
    (folder / "contest_graphs.png").write_bytes(b"two")
    assert pages.fill_pictures(images, folder, check=True) == ["graphs.png"]
    assert (images / "graphs.png").read_bytes() == b"one"


def test_the_pictures_of_the_pages_are_those_of_the_results():
    assert pages.fill_pictures(machine.DOCS / "images", machine.RESULTS, check=True) == []


def test_seconds_of_calls_and_of_features_to_labels_stand_in_one_table(tmp_path):
    assert pages.MAKERS["sizes"](tmp_path) is None
    calls = [("nodes", 1000, 0.21, 0.004), ("nodes", 70000, 3.04, 0.23), ("classes", 70000, 19.0, 1.7)]
    machine.write_csv(
        [{"series": s, "nodes": n, "seconds": seconds, "peak_gb": peak} for s, n, seconds, peak in calls],
        tmp_path / "scaling.csv",
    )
    timed = [("features", "knn_graph and CREPE", second) for second in (7.0, 9.0, 8.0)]
    timed += [("features", "scikit-learn LabelSpreading", 99.0)]

    def measured(rows: list[tuple[str, str, float]]) -> str:
        machine.write_csv(
            [{"part": part, "what": what, "seconds": second, "load": 5.6} for part, what, second in rows],
            tmp_path / "end_to_end.csv",
        )
        return pages.MAKERS["sizes"](tmp_path)

    text = measured(timed)
    assert "| 1,000 | 0.2 | 0.00 | – |" in text
    assert "| 70,000 | 3.0 | 0.23 | 8.0 |" in text  # the median of the rounds
    assert "million" not in text
    text = measured([*timed, ("million", "knn_graph, a million rows", 100.4), ("million", "CREPE on it", 60.4)])
    assert "| 1,000,000 | – | – | 161 |" in text  # both steps
    assert "`--parts million`, at a load of 6" in text


def test_what_certainty_is_worth_is_told_of_the_default(tmp_path):
    rows = [
        {
            "family": family,
            "draw": draw,
            "seed": seed,
            "method": method,
            "error": 20.0,
            "ece": ece + 10 * (method == "CREPE"),
            "low": 10.0 if (family, seed) != ("letter", 0) else 25.0,
            "high": 30.0,
            "found": 60.0,
            "most": 80.0,
            "left": 12.0,
        }
        for family in ("TREC", "letter")
        for draw, ece in (("1 per class", 20.0), ("25 per class", 4.0))
        for seed in (0, 1)
        for method in ("CREPE", "CREPE + head")
    ]
    machine.write_csv(rows, tmp_path / "contest_certainty.csv")
    text = pages.MAKERS["trust"](tmp_path)
    assert "12 points off on average, 20 with 1 label per class and 4 with 25 labels per class" in text
    assert "held it 75 times (50 on letter, the worst)" in text
    assert "60 of 100 errors, where at most 80 could be" in text
    assert "from 20.0 to 12.0 %" in text
