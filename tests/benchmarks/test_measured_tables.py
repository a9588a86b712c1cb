"""Tables and sentences of the page of details, of files whose means are known."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("sklearn")

from contest import measured_tables
from shared import machine
from table1.verdict import comparisons


def test_small_graphs_have_mean_deviation_and_median(tmp_path):
    errors = {"CREPE": (1.0, 2.0, 6.0), "LGC": (4.0, 4.0, 4.0)}
    rows = [
        {"data": "moons", "model": model, "seed": seed, "error": error}
        for model, own in errors.items()
        for seed, error in enumerate(own)
    ]
    machine.write_csv(rows, tmp_path / "core_few_labels.csv")
    lines = measured_tables.small_graphs("core_few_labels", tmp_path).splitlines()
    assert lines[0] == "| error in % | moons |"
    assert lines[2:] == ["| CREPE | 3.00 ± 2.65 (2.00) |", "| LGC | 4.00 ± 0.00 (4.00) |"]


def test_strategies_come_in_the_order_of_their_means(tmp_path):
    rows = [
        {"data": "digits", "method": method, "seed": seed, "labels": labels, "error": base + seed - labels / 10}
        for method, base in (("random", 9.0), ("coverage", 7.0), ("GraphLearning V-opt", 5.0))
        for seed in (0, 1)
        for labels in (10, 20)
    ]
    machine.write_csv(rows, tmp_path / "label_next.csv")
    assert measured_tables.label_choice(tmp_path).splitlines() == [
        "| strategy | 10 labels | 20 | mean |",
        "|---|---|---|---|",
        "| GraphLearning V-opt | 4.50 | 3.50 | 4.00 |",
        "| `coverage` (the default) | 6.50 | 5.50 | 6.00 |",
        "| at random | 8.50 | 7.50 | 8.00 |",
    ]


def test_sentences_about_the_label_page(tmp_path):
    rows = [
        {"data": "digits", "method": method, "seed": seed, "keys": keys, "error": error + seed}
        for method, errors in (("label", (2.0, 1.0)), ("random", (17.0, 5.0)))
        for keys, error in zip((20, 50), errors, strict=True)
        for seed in (0, 1)
    ]
    machine.write_csv([*rows, {**rows[0], "data": "fashion", "error": 99.0}], tmp_path / "labelling.csv")
    text = measured_tables.keys_pressed(tmp_path)
    assert text.startswith(
        "2 simulated sessions on 1,797 digits: 2.5 % of all are wrong after 20 answers, 1.5 % after 50"
    )
    assert "at random leave 18 and 5.5 %" in text

    held = [(10, 5.0, 1.0, 9.0), (10, 5.0, 6.0, 10.0), (20, 3.0, 3.0, 7.0), (20, 9.0, "", "")]
    machine.write_csv(
        [{"answers": a, "error": 0.0, "open_error": e, "low": low, "high": high} for a, e, low, high in held],
        tmp_path / "label_coverage.csv",
    )
    assert measured_tables.page_coverage(tmp_path) == (
        "The interval held the true error 1 of 2 times after 10 answers (6 points wide on average), 1 of 1 times after "
        "20 answers (4 points wide on average)."
    )
    ends = [
        {"data": data, "method": "label", "keys": keys, "open_error": 5.0, "low": 4.0, "high": high}
        for data, keys, high in (("digits", 10, 1.0), ("digits", 200, 20.0), ("fashion", 200, 20.0))
    ]
    machine.write_csv([*ends, {**ends[1], "method": "label, pages of 24"}], tmp_path / "labelling.csv")
    assert measured_tables.page_coverage(tmp_path).endswith(
        "In the long sessions above (10 to 200 keys) it did so at 2 of 3 stops, at 1 of 2 on digits, the worst."
    )

    found = {"items": 7000, "wait_median": 0.06, "wait_95": 0.08, "update_over_propagate": 1.2, "memory_gb": 1.94}
    (tmp_path / "label_server.json").write_text(json.dumps(found))
    text = measured_tables.page_speed(tmp_path)
    assert "7,000 items" in text
    assert "60 ms" in text
    assert "95th percentile 80 ms" in text
    assert "1.20 times" in text
    assert "1.9 GB" in text


def test_rivals_are_compared_with_crepe_cell_by_cell(tmp_path):
    errors = {"x": (9.5, 19.5, 9.5), "y": (4.5, 9.5, 2.0)}  # half a node of 100 is added: 10, 20, 10 and 5, 10, 2.5
    rows = [
        {"family": family, "draw": "5 per class", "method": method, "unlabelled": 100, "error": error}
        for family, own in errors.items()
        for method, error in zip(("crepe", "volume_mbo", "cut_ssl"), own, strict=True)
    ]
    machine.write_csv(rows, tmp_path / "contest_energies_rivals.csv")
    text = measured_tables.rivals(tmp_path)
    assert "Volume-MBO 2.00 (lower in 0 of 2 cells)" in text
    assert "CutSSL 0.71 (lower in 1 of 2 cells)" in text


def test_a_file_that_is_missing_leaves_its_part_as_it_is(tmp_path):
    assert {name: make(tmp_path) for name, make in measured_tables.MAKERS.items()} == dict.fromkeys(
        measured_tables.MAKERS
    )


def test_where_crepe_stands_is_what_the_tables_say():
    found = comparisons(machine.RESULTS)
    text = measured_tables.standing_sentence(machine.RESULTS)
    ahead, behind = ([one for one in found if sign * one.change > 0] for sign in (-1, 1))
    assert f"each of {len(found)} settings" in text
    assert f"the lower mean error in {len(ahead)}, " in text
    assert f"the higher one in {len(behind)}, " in text
    worst = max(behind, key=lambda one: one.ours / one.theirs)
    assert (
        f"{worst.graph}, {worst.column} ({worst.rival} has {100 * (1 - worst.theirs / worst.ours):.0f} % fewer)" in text
    )
