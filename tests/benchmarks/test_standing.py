"""How methods stand over cells: ratios, ranks and p, by hand."""

from __future__ import annotations

import math

import pytest
from scipy.stats import wilcoxon
from shared.standing import Standing, geometric_mean, p_text, paired_p


def made_up(field=None) -> Standing:
    """Three cells of a hundred rows: half a row is 0.5 points."""
    errors = {
        ("a", "few"): {"ours": 9.5, "x": 19.5, "y": 4.5},
        ("a", "many"): {"ours": 1.5, "x": 1.5, "y": 3.5},
        ("b", "few"): {"ours": 0.0, "x": 0.5},
    }
    return Standing(errors, dict.fromkeys(errors, 0.5), "ours", field)


def test_ratios_are_to_the_lowest_of_the_cell():
    standing = made_up()
    assert [standing.ratio(place, "ours") for place in standing.errors] == [2, 1, 1]
    assert standing.mean_ratio("ours") == pytest.approx(2 ** (1 / 3))
    assert standing.mean_ratio("x") == pytest.approx((4 * 1 * 2) ** (1 / 3))
    assert standing.mean_ratio("y") == pytest.approx(2**0.5)  # of the cells that it has
    assert standing.mean_ratio("x", "many") == 1
    assert math.isnan(standing.mean_ratio("x", "none"))
    assert (standing.worst("x"), standing.worst_text("x")) == (("a", "few"), "4.00 (a, few)")
    assert [standing.lowest(name) for name in ("ours", "x", "y")] == [2, 1, 1]


def test_equal_errors_share_a_rank_and_cells_without_a_method_do_not_count():
    standing = made_up()
    assert [standing.rank(name) for name in ("ours", "x", "y")] == [(2 + 1.5) / 2, (3 + 1.5) / 2, (1 + 3) / 2]
    pair = made_up(field=("ours", "x"))
    assert (pair.rank("ours"), pair.rank("x")) == ((1 + 1.5 + 1) / 3, (2 + 1.5 + 2) / 3)
    assert pair.rank("y") == (1 + 2) / 2  # in the place of ours, beside x


def test_p_is_wilcoxons_of_the_logarithms():
    standing = made_up()
    own = [math.log(20 / 10), math.log(2 / 2), math.log(1 / 0.5)]
    assert standing.chance("x") == pytest.approx(wilcoxon(own).pvalue)
    assert math.isnan(standing.chance("ours"))
    assert paired_p([0.0, 0.0]) == 1
    assert math.isnan(paired_p([]))
    assert [p_text(p) for p in (math.nan, 1e-12, 0.0123, 1.0)] == ["–", "< 1e-9", "0.01", "1"]


def test_only_seeds_that_all_methods_have_count():
    common = {"family": "a", "draw": "few", "unlabelled": 100}
    rows = [
        *({**common, "method": "ours", "seed": seed, "error": error} for seed, error in enumerate((1.0, 3.0, 80.0))),
        *({**common, "method": "x", "seed": seed, "error": error} for seed, error in enumerate((5.0, 7.0))),
        {**common, "family": "b", "method": "x", "seed": 0, "error": 1.0},  # a cell without ours
    ]
    standing = Standing.of_rows(rows, "ours")
    assert standing.errors == {("a", "few"): {"ours": 2.0, "x": 6.0}}
    assert standing.half == {("a", "few"): 0.5}


def test_tables_have_a_line_per_method():
    lines = made_up().table()
    assert lines[2] == "| ours | 1.260 | 1.8 | 2.00 (a, few) | 2 of 3 | – |"
    assert len(lines) == 5
    assert made_up().draw_table(["few", "many"])[2] == "| ours | 1.41 | 1.00 |"
    assert made_up().draw_table(["many", "none"])[4] == "| y | 2.00 (p 1) | – |"


def test_geometric_mean():
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2)
    assert math.isnan(geometric_mean([]))
