"""Weights at the edge of the number range: every model is free of scale, so they change nothing."""

import warnings

import pytest
import torch
from helpers import clusters

from tg_crepe import cheeger_partition, get_energy_model, prepare
from tg_crepe.models.registry import ENERGY_MODELS
from tg_crepe.warnings import ConvergenceWarning, GraphWarning

pytestmark = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])

#: Exponents of two, none of them near 0, whose products with weights between 0.01 and 1 are normal numbers.
EXPONENTS = {torch.float32: (-118, -31, 31, 127), torch.float64: (-1010, -300, 300, 1023)}


def task(dtype):
    graph, y = clusters(0, num_nodes=60)
    mask = torch.zeros(60, dtype=torch.bool)
    for c in range(3):
        mask[(y == c).nonzero().view(-1)[:3]] = True
    return y, graph.edge_index, mask, graph.edge_weight.to(dtype)


def run(name, y, edge_index, mask, weight):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", GraphWarning)
        return get_energy_model(name).propagate(y, edge_index, mask, weight)


@pytest.mark.parametrize("name", ENERGY_MODELS)
def test_weights_times_any_power_of_two_give_the_same_bits(name, dtype):
    *labels, weight = task(dtype)
    expected = run(name, *labels, weight)
    for exponent in EXPONENTS[dtype]:
        half = exponent // 2
        large = weight * 2.0**half * 2.0 ** (exponent - half)
        result = run(name, *labels, large)
        for field in ("label", "prob", "certainty"):
            assert torch.equal(getattr(result, field), getattr(expected, field)), (field, exponent)
        assert bool(torch.isfinite(result.u).all())


@pytest.mark.parametrize("name", ENERGY_MODELS)
def test_ordinary_scales_give_the_same_labels(name, dtype):
    *labels, weight = task(dtype)
    expected = run(name, *labels, weight)
    for exponent in (-20, 20):
        result = run(name, *labels, weight * 2.0**exponent)
        assert torch.equal(result.label, expected.label)
        torch.testing.assert_close(result.prob, expected.prob, atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", ENERGY_MODELS)
def test_weights_of_a_few_bits_give_finite_numbers_and_the_same_twice(name, dtype):
    *labels, weight = task(dtype)
    tiny = torch.finfo(dtype).smallest_normal
    weight = weight * tiny * 1e-6
    result, again = run(name, *labels, weight), run(name, *labels, weight)
    for field in ("u", "prob", "certainty"):
        assert bool(torch.isfinite(getattr(result, field)).all()), field
        assert torch.equal(getattr(result, field), getattr(again, field)), field
    assert set(result.label.tolist()) <= {0, 1, 2}


def test_a_prepared_graph_is_in_the_safe_range(dtype):
    y, edge_index, mask, weight = task(dtype)
    weight = (weight * 2.0 ** EXPONENTS[dtype][0]).repeat(2)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    graph = prepare(edge_index, weight)
    assert graph.in_safe_range() is graph
    assert torch.equal(run("lgc", y, graph, mask, None).prob, run("lgc", y, edge_index, mask, weight).prob)


def test_a_partition_does_not_depend_on_the_scale(dtype):
    _, edge_index, _, weight = task(dtype)
    edge_index, weight = torch.cat([edge_index, edge_index.flip(0)], dim=1), weight.repeat(2)
    expected = cheeger_partition(edge_index, weight)
    for exponent in EXPONENTS[dtype][:-1]:
        half = exponent // 2
        found = cheeger_partition(edge_index, weight * 2.0**half * 2.0 ** (exponent - half))
        assert torch.equal(found.partition, expected.partition)
        assert found.ratio == expected.ratio
