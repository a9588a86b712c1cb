"""Soft evidence for every model: taken where it helps, ignored where it does not, the same bits without it."""

import warnings

import numpy as np
import pytest
import torch
from helpers import clusters
from torch_geometric.data import Data

from tg_crepe import LGC, CrepePropagation, GraphWarning, get_energy_model
from tg_crepe.models import ENERGY_MODELS


def make_data(per_class: int = 2) -> Data:
    graph, y = clusters(3, num_nodes=150, spread=5.0)
    mask = torch.zeros(150, dtype=torch.bool)
    for c in range(3):
        mask[(y == c).nonzero().view(-1)[:per_class]] = True
    edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    return Data(edge_index=edge_index, edge_weight=graph.edge_weight.repeat(2), y=y, train_mask=mask, num_nodes=150)


def guess(y: torch.Tensor, right: float, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    said = np.where(rng.random(len(y)) < right, y.numpy(), rng.integers(0, 3, len(y)))
    prob = np.full((len(y), 3), 0.1)
    prob[np.arange(len(y)), said] = 0.8
    return torch.from_numpy(prob)


def wrong(result, data) -> float:
    return float((result.label != data.y)[~data.train_mask].double().mean())


def run(model, data, **options):
    return model.propagate(data.y, data.edge_index, data.train_mask, data.edge_weight, **options)


@pytest.mark.parametrize("name", list(ENERGY_MODELS))
def test_good_evidence_helps_every_model(name):
    data, model = make_data(), get_energy_model(name)
    alone, prior = run(model, data), guess(data.y, 0.9)
    result = run(model, data, prior=prior)
    assert wrong(result, data) < wrong(alone, data)
    assert result.prior_trust > 0.1
    torch.testing.assert_close(result.prob.sum(dim=1), torch.ones_like(result.prob[:, 0]))
    free = result.pseudo_mask
    assert torch.equal(result.prob[free].argmax(dim=1), result.label[free])
    assert torch.equal(result.label[data.train_mask], data.y[data.train_mask])
    assert 0 < result.expected_error.value < 1


@pytest.mark.parametrize("model", [CrepePropagation(), LGC(), CrepePropagation.paper()], ids=["crepe", "lgc", "paper"])
def test_evidence_that_contradicts_the_labels_is_ignored_and_said(model):
    data = make_data(5)
    alone = run(model, data)
    with pytest.warns(
        GraphWarning, match=r"^the labels do not support 'prior': it is as good as ignored \(trust 0.00\)$"
    ):
        result = run(model, data, prior=guess((data.y + 1) % 3, 1.0))
    assert torch.equal(result.label, alone.label)
    assert torch.equal(result.prob, alone.prob)
    assert result.prior_trust == 0


@pytest.mark.parametrize("model", [CrepePropagation(), LGC()], ids=["crepe", "lgc"])
def test_no_opinion_at_all_changes_no_label(model):
    data = make_data(5)
    prior = torch.full((150, 3), torch.nan, dtype=torch.float64)
    alone, result = run(model, data), run(model, data, prior=prior)
    assert float((result.label != alone.label).double().mean()) <= 0.01
    assert alone.prior_trust is None


def test_how_far_it_is_trusted_may_be_said():
    data = make_data(5)
    prior = guess((data.y + 1) % 3, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        ignored = run(LGC(prior_trust=0.0), data, prior=prior)
    assert torch.equal(ignored.label, run(LGC(), data).label)
    assert wrong(run(LGC(prior_trust=20.0), data, prior=prior), data) > 0.9
    with pytest.raises(ValueError, match="'prior_trust' must be"):
        LGC(prior_trust=-1.0)


def test_a_transform_reads_the_prior_of_its_data_and_arrays_are_taken():
    data, prior = make_data(), guess(make_data().y, 0.9)
    wanted = run(CrepePropagation(), data, prior=prior)
    assert torch.equal(run(CrepePropagation(), data, prior=prior.numpy()).label, wanted.label)
    data.prior = prior
    assert torch.equal(CrepePropagation()(data).pseudo_y, wanted.label)


def test_columns_of_classes_without_a_label_are_left_out():
    data = make_data(4)
    wide = torch.cat([guess(data.y, 0.9), torch.full((150, 1), 5.0, dtype=torch.float64)], dim=1)
    with pytest.warns(GraphWarning, match=r"class\(es\) \[3\]"):
        result = run(CrepePropagation(), data, num_classes=4, prior=wide)
    assert torch.equal(result.label, run(CrepePropagation(), data, prior=wide[:, :3]).label)
    assert float(result.prob[:, 3].max()) == 0


def test_evidence_that_does_not_spread_stays_out_of_the_flow():
    data = make_data(5)
    alone = run(CrepePropagation(), data)
    still = run(CrepePropagation(), data, prior=guess(data.y, 0.9), spread_prior=False)
    spread = run(CrepePropagation(), data, prior=guess(data.y, 0.9))
    assert torch.equal(still.u, alone.u)
    assert not torch.equal(spread.u, alone.u)
    assert wrong(still, data) < wrong(alone, data)


@pytest.mark.parametrize("name", ["crepe", "lgc", "harmonic"])
def test_findings_take_evidence_too(name):
    data = make_data(5)
    y = torch.nn.functional.one_hot(data.y).double()
    y[~data.train_mask] = torch.nan
    prior = torch.where(torch.nn.functional.one_hot(data.y).bool(), 0.85, 0.1).double()
    prior[::7] = torch.nan
    model = get_energy_model(name)
    alone, result = (model.propagate(y, data.edge_index, None, data.edge_weight, prior=p) for p in (None, prior))
    truth, free = torch.nn.functional.one_hot(data.y), ~data.train_mask
    assert int((result.label != truth)[free].sum()) < int((alone.label != truth)[free].sum())
    assert bool(((result.prob >= 0) & (result.prob <= 1)).all())


def test_correct_and_smooth_is_a_special_case():
    """A base prediction that is diffused from all nodes, with the labels in it, is C&S's smoothing: LGC with the
    predictions as sources. CREPE's start with evidence of full weight is that diffusion, less the node's own word."""
    from dataclasses import replace

    from tg_crepe.inference.evidence import evidence_source
    from tg_crepe.inference.task import LabelTask
    from tg_crepe.models.crepe.recipe import Recipe
    from tg_crepe.models.crepe.start import diffused_start
    from tg_crepe.models.crepe.volumes import VolumePosterior

    graph, y = clusters(3, num_nodes=90)
    sign = torch.zeros(90, 3, dtype=torch.float64)
    sign[:60:6] = 2 * torch.nn.functional.one_hot(y[:60:6], 3).double() - 1
    task = LabelTask(graph, sign, False, torch.arange(3), 3)
    task = replace(task, evidence=guess(y, 0.8))
    source, rate, share = evidence_source(task), 0.25, torch.full((3,), 1 / 3, dtype=torch.float64)
    recipe = Recipe(reweight_rounds=0, start_tol=1e-10)
    start = diffused_start(task, recipe, rate, lambda _: VolumePosterior.given(share), outvote=False)
    adjacency = torch.zeros(90, 90, dtype=torch.float64)
    first, second = graph.edge_index
    adjacency[first, second] = adjacency[second, first] = graph.edge_weight
    degree = graph.degree
    smooth = adjacency / (degree.sqrt().unsqueeze(1) * degree.sqrt())
    alpha = 1 / (1 + rate)
    diffused = torch.linalg.solve(torch.eye(90, dtype=torch.float64) - alpha * smooth, task.sources + source) - source
    value = diffused / degree.sqrt().unsqueeze(1)
    value = value * share / (degree @ value)
    torch.testing.assert_close(start.support, value / value.sum(dim=1, keepdim=True), atol=1e-6, rtol=0)


@pytest.mark.parametrize("per_class", [1, 2, 3])
def test_names_of_classes_do_not_matter(per_class):
    data, turn = make_data(per_class), torch.tensor([2, 0, 1])
    prior = guess(data.y, 0.8)
    one = run(CrepePropagation(), data, prior=prior)
    data.y = turn[data.y]
    other = run(CrepePropagation(), data, prior=prior[:, turn.argsort()])
    assert torch.equal(other.label, turn[one.label])
    torch.testing.assert_close(other.prob[:, turn], one.prob, atol=1e-6, rtol=0)


@pytest.mark.parametrize("spread", [True, False])
def test_a_trust_that_is_given_or_that_nobody_can_judge_is_kept(spread):
    data = make_data(4)
    prior = guess(data.y, 0.9)
    assert run(CrepePropagation(prior_trust=1.5), data, prior=prior, spread_prior=spread).prior_trust == pytest.approx(
        1.5
    )
    prior[data.train_mask] = torch.nan
    trust = run(CrepePropagation(), data, prior=prior, spread_prior=spread).prior_trust
    assert trust > 0.5 if spread else trust == pytest.approx(1)  # what spreads is judged by the graph


def test_evidence_for_a_class_without_a_label_says_nothing_of_the_others():
    data = make_data(4)
    elsewhere = torch.tensor([1e-6, 1e-9, 1e-9, 1.0], dtype=torch.float64).expand(150, 4)
    with pytest.warns(GraphWarning, match=r"class\(es\) \[3\]"):
        result = run(LGC(prior_trust=1.0), data, num_classes=4, prior=elsewhere)
    assert float((result.label != run(LGC(), data).label).double().mean()) < 0.02


def test_a_sure_finding_stays_finite_at_any_trust():
    data = make_data(5)
    y = torch.nn.functional.one_hot(data.y).double()
    y[~data.train_mask] = torch.nan
    prior = torch.nn.functional.one_hot(data.y).double()
    for name in ("crepe", "lgc"):
        model = get_energy_model(name, prior_trust=50.0)
        result = model.propagate(y, data.edge_index, None, data.edge_weight, prior=prior)
        assert bool(torch.isfinite(result.prob).all())
        assert torch.equal(result.label.argmax(dim=1), data.y)


def test_one_class_alone_has_no_use_for_evidence_and_says_so():
    data = make_data(4)
    with pytest.warns(GraphWarning, match="as good as ignored"):
        result = LGC().propagate(
            torch.zeros(150, dtype=torch.long),
            data.edge_index,
            data.train_mask,
            data.edge_weight,
            prior=torch.ones(150, 1),
        )
    assert result.prior_trust == 0
