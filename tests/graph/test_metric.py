from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe import GraphWarning, knn_graph
from tg_crepe.graph import metric as module
from tg_crepe.graph.metric import Placement, choose_metric


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def table(seed: int = 0) -> torch.Tensor:
    """Three groups in columns with units of their own; the last column is constant."""
    x = randn(300, 6, seed=seed) + 4 * torch.nn.functional.one_hot(torch.arange(300) % 3, 6)
    return x * torch.tensor([1, 1000, 0.01, 3, 1, 0]).double() + 5


def directions(seed: int = 0, num_features: int = 40) -> torch.Tensor:
    """Groups of directions with lengths that say nothing, as embeddings have them."""
    x = randn(6, num_features, seed=seed)[torch.arange(600) % 6] + 1.2 * randn(600, num_features, seed=seed + 1)
    return x * (0.5 * randn(600, 1, seed=seed + 2)).exp()


def clouds(num_features: int = 3, seed: int = 0) -> torch.Tensor:
    """Four clouds, one of them at the origin, where no direction tells it from the others."""
    centre = torch.cat([torch.zeros(1, num_features), 4 * torch.eye(3, num_features)])
    return centre[torch.arange(800) % 4] + randn(800, num_features, seed=seed)


def rings(seed: int = 0) -> torch.Tensor:
    """Two rings around the origin, which differ in length alone."""
    angle = 2 * torch.pi * torch.arange(600) / 300
    x = torch.stack([angle.cos(), angle.sin()], dim=1) * (1 + (torch.arange(600) >= 300)).unsqueeze(1)
    return x + 0.03 * randn(600, 2, seed=seed)


def components(seed: int = 0) -> torch.Tensor:
    """Principal components of an embedding, of very different but decaying scale."""
    x = directions(seed) * torch.linspace(1, 0.2, 40)
    x = x - x.mean(dim=0)
    return x @ torch.linalg.svd(x, full_matrices=False)[2].T


CASES = {
    "table": (table, "euclidean, standardised columns"),
    "directions": (directions, "cosine"),
    "components": (components, "cosine"),
    "clouds": (clouds, "euclidean"),
    "rings": (rings, "euclidean"),
    "one column": (lambda seed: randn(300, 1, seed=seed), "euclidean"),
    "two columns": (lambda seed: randn(300, 2, seed=seed) * torch.tensor([1.0, 9]), "euclidean, standardised columns"),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_the_metric_is_that_of_the_kind_of_features(name, seed):
    make, expected = CASES[name]
    assert str(choose_metric(make(seed=seed))) == expected


@pytest.mark.parametrize("name", CASES)
def test_order_unit_and_precision_change_nothing(name):
    x = CASES[name][0](seed=0)
    placement = choose_metric(x)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    for other, unit in ((x[order], 1.0), (37.3 * x, 37.3), (1e150 * x, 1e150), (1e-150 * x, 1e-150), (x.float(), 1.0)):
        found = choose_metric(other)
        assert str(found) == str(placement)
        if placement.factor is not None:
            torch.testing.assert_close(found.factor * unit, placement.factor, rtol=1e-6, atol=0)


def test_the_order_of_the_rows_changes_no_bit_of_the_factors():
    x = table()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    assert torch.equal(choose_metric(x[order]).factor, choose_metric(x).factor)


@pytest.mark.parametrize("make", [directions, clouds, table])
def test_blocks_and_a_sample_give_the_same_choice(monkeypatch, make):
    x = make()
    whole = choose_metric(x)
    monkeypatch.setattr(module, "_BLOCK", 7 * x.size(1))
    blocks = choose_metric(x)
    monkeypatch.setattr(module, "_SAMPLE", 250)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    assert str(choose_metric(x)) == str(choose_metric(x[order])) == str(blocks) == str(whole)
    if whole.factor is not None:
        assert torch.equal(blocks.factor, whole.factor)


def test_a_table_gets_the_graph_of_its_standardised_columns():
    x = table()
    with pytest.warns(
        GraphWarning, match="columns of 'x' are of very different scale .* they are standardised"
    ) as told:
        edge_index, edge_weight = knn_graph(x, 7)
    assert len(told) == 1
    assert told[0].filename == __file__
    spread = x.std(dim=0, correction=0)
    scaled = (x - x.mean(dim=0))[:, :5] / spread[:5]
    expected = knn_graph(scaled, 7, "euclidean")
    assert torch.equal(edge_index, expected[0])
    torch.testing.assert_close(edge_weight, expected[1], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("make", "metric"), [(directions, "cosine"), (clouds, "euclidean")])
def test_the_default_graph_is_that_of_the_chosen_metric(make, metric):
    x = make()
    for options in ({}, {"kernel": "cosine"}, {"backend": "torch"}):
        found, expected = knn_graph(x, 7, **options), knn_graph(x, 7, metric, **options)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_an_explicit_metric_says_nothing_of_scales():
    x = table()
    for metric in ("euclidean", "cosine"):
        knn_graph(x, 7, metric)  # a warning would be an error here


def test_a_placement_is_taken_as_a_metric():
    x = table()
    placement = choose_metric(x)
    found = knn_graph(x, 7, placement)  # and its note was for who made it
    expected = knn_graph(x * placement.factor, 7, "euclidean")
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@given(seed=st.integers(0, 1000), rows=st.integers(2, 12), columns=st.integers(1, 4))
def test_few_rows_are_enough(seed, rows, columns):
    placement = choose_metric(randn(rows, columns, seed=seed))
    assert placement.metric == "euclidean"  # no difference is beyond chance


@pytest.mark.parametrize("x", [torch.zeros(20, 3), torch.ones(20, 3), torch.ones(2, 1), torch.eye(30)])
def test_rows_without_any_spread_are_euclidean(x):
    assert choose_metric(x) == Placement("euclidean")


def test_a_constant_column_counts_for_nothing():
    x = table()
    assert choose_metric(x).factor[5] == 0
    assert str(choose_metric(torch.cat([clouds(), torch.full((800, 5), 3.0)], dim=1))) == "euclidean"


def test_one_far_offset_does_not_hide_the_spread():
    x = clouds() + torch.tensor([0.0, 1e6, 0.0])
    assert str(choose_metric(x)) == "euclidean"


def test_the_hubs_are_those_of_a_direct_count():
    x = directions()[:200]
    euclidean, cosine = module.squared_distances(x)
    direct = ((x[:, None] - x) ** 2).sum(dim=2)
    torch.testing.assert_close(euclidean, direct, rtol=1e-8, atol=1e-10)
    unit = x / x.norm(dim=1, keepdim=True)
    torch.testing.assert_close(cosine, ((unit[:, None] - unit) ** 2).sum(dim=2), rtol=1e-8, atol=1e-10)
    near = direct.fill_diagonal_(torch.inf).argsort(dim=1)[:, :10]
    count = np.bincount(near.reshape(-1).numpy(), minlength=200)
    skewness = ((count - count.mean()) ** 3).mean() / count.std() ** 3
    assert module._hubness(euclidean) == pytest.approx(skewness)
