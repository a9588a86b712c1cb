"""What every energy model does with its input, tried on one quick model and on CREPE."""

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.transforms as T
from helpers import clusters
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.datapipes import DatasetAdapter

from tg_crepe import (
    LGC,
    WNLL,
    CenteredKernel,
    CrepePropagation,
    EnergyModel,
    FeatureKNNGraph,
    GraphWarning,
    Harmonic,
    NearestNeighbor,
    Poisson,
    RandomWalk,
    knn_graph,
)

MODELS = [
    CrepePropagation(),
    LGC(),
    LGC(balanced=True),
    Harmonic(),
    Harmonic(label_weight=5.0),
    NearestNeighbor(),
    RandomWalk(),
    WNLL(),
    Poisson(),
    CenteredKernel(),
]


@pytest.fixture(params=MODELS, ids=repr)
def model(request) -> EnergyModel:
    return request.param


def make_data(num_labels: int = 9, seed: int = 0) -> Data:
    graph, y = clusters(seed, num_nodes=90)
    mask = torch.zeros(90, dtype=torch.bool)
    for c in range(3):
        mask[(y == c).nonzero().view(-1)[: num_labels // 3]] = True
    edge_index = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    weight = torch.cat([graph.edge_weight, graph.edge_weight])
    return Data(edge_index=edge_index, edge_weight=weight, y=y, train_mask=mask, num_nodes=90)


def run(model: EnergyModel, data: Data, **options):
    return model.propagate(data.y, data.edge_index, data.train_mask, data.edge_weight, **options)


def assert_same(one, other) -> None:
    for name in ("u", "label", "prob", "certainty", "reached", "pseudo_mask"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


# ---------------------------------------------------------------- results


def test_shapes_types_and_ranges(model):
    data = make_data()
    result = run(model, data)
    assert result.u.shape == result.prob.shape == (90, 3)
    assert result.u.dtype == result.prob.dtype == result.certainty.dtype == torch.float64
    assert result.label.shape == (90,)
    assert result.label.dtype == torch.long
    assert set(result.label.tolist()) == {0, 1, 2}
    torch.testing.assert_close(result.prob.sum(dim=1), torch.ones(90, dtype=torch.float64))
    assert 0 <= float(result.certainty.min()) <= float(result.certainty.max()) <= 1
    assert torch.equal(result.pseudo_mask, ~data.train_mask)
    assert bool(result.reached.all())
    assert result.status == "converged"
    assert len(result.trace) > 0
    assert float((result.label != data.y).double().mean()) < 0.3


def test_hard_label_is_the_most_probable_class(model):
    result = run(model, make_data())
    assert torch.equal(result.prob.argmax(dim=1), result.label)


def test_labelled_nodes_keep_their_label(model):
    data = make_data()
    result = run(model, data)
    assert torch.equal(result.label[data.train_mask], data.y[data.train_mask])
    assert torch.equal(result.prob[data.train_mask], torch.eye(3, dtype=torch.float64)[data.y[data.train_mask]])
    assert result.certainty[data.train_mask].tolist() == [1.0] * 9


def test_labels_outside_the_mask_change_no_bit(model):
    data = make_data()
    poisoned = data.clone()
    poisoned.y = torch.where(data.train_mask, data.y, torch.randint(-5, 1000, (90,)))
    assert_same(run(model, data, num_classes=3), run(model, poisoned, num_classes=3))
    assert_same(run(model, data), run(model, poisoned))


def test_same_call_same_bits_and_inputs_untouched(model):
    data = make_data()
    before = copy.deepcopy(data)
    first, second = run(model, data), run(model, data)
    assert_same(first, second)
    assert all(torch.equal(data[key], before[key]) for key in ("y", "edge_index", "edge_weight", "train_mask"))


def test_order_of_nodes_only_permutes_the_result(model):
    data = make_data()
    order = torch.randperm(90, generator=torch.Generator().manual_seed(0))
    place = torch.empty(90, dtype=torch.long).index_put_((order,), torch.arange(90))
    moved = Data(
        edge_index=place[data.edge_index],
        edge_weight=data.edge_weight,
        y=data.y[order],
        train_mask=data.train_mask[order],
        num_nodes=90,
    )
    one, other = run(model, data), run(model, moved)
    torch.testing.assert_close(other.u, one.u[order], atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(other.prob, one.prob[order], atol=1e-8, rtol=0)
    assert torch.equal(other.label, one.label[order])


def test_order_of_edges_changes_no_bit(model):
    data = make_data()
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(1))
    shuffled = data.clone()
    shuffled.edge_index, shuffled.edge_weight = data.edge_index[:, order], data.edge_weight[order]
    assert_same(run(model, data), run(model, shuffled))


def test_names_of_classes_only_permute_the_result(model):
    data = make_data()
    rename = torch.tensor([2, 0, 1])
    renamed = data.clone()
    renamed.y = rename[data.y]
    one, other = run(model, data), run(model, renamed)
    torch.testing.assert_close(other.u[:, rename], one.u, atol=1e-10, rtol=1e-9)
    assert torch.equal(other.label, rename[one.label])


@pytest.mark.parametrize("scale", [2.0**-20, 3.0, 1e6])
def test_scale_of_the_weights_does_not_matter(model, scale):
    data = make_data()
    scaled = data.clone()
    scaled.edge_weight = scale * data.edge_weight
    one, other = run(model, data), run(model, scaled)
    torch.testing.assert_close(other.prob, one.prob, atol=1e-6, rtol=0)
    assert torch.equal(other.label, one.label)


def test_weights_are_used(model):
    data = make_data()
    assert not torch.equal(run(model, data).u, model.propagate(data.y, data.edge_index, data.train_mask).u)


def test_single_precision_gives_the_same_labels(model):
    data = make_data()
    single = data.clone()
    single.edge_weight = data.edge_weight.float()
    one, other = run(model, data), run(model, single)
    assert other.u.dtype == other.prob.dtype == torch.float32
    assert float((one.label == other.label).double().mean()) >= 0.98
    torch.testing.assert_close(other.prob.double(), one.prob, atol=2e-2, rtol=0)


# ---------------------------------------------------------------- PyG habits


def test_transform_writes_the_pseudo_labels_into_data(model):
    data = model(make_data())
    result = run(model, make_data())
    assert torch.equal(data.pseudo_y, result.label)
    assert torch.equal(data.pseudo_prob, result.prob)
    assert torch.equal(data.certainty, result.certainty)
    assert torch.equal(data.pseudo_mask, result.pseudo_mask)


def test_compose_from_features_to_pseudo_labels_and_back_from_disk(tmp_path):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    x = torch.randn(60, 5, generator=generator) + 3 * y.unsqueeze(1)
    data = Data(x=x, y=y, train_mask=torch.arange(60) < 6)
    data = T.Compose([FeatureKNNGraph(k=5, metric="euclidean"), CrepePropagation()])(data)
    torch.save(data, tmp_path / "data.pt")
    loaded = torch.load(tmp_path / "data.pt", weights_only=False)
    assert torch.equal(loaded.pseudo_y, data.pseudo_y)
    assert torch.equal(loaded.certainty, data.certainty)
    assert float((data.pseudo_y != y).double().mean()) < 0.05


def test_a_data_object_may_name_the_classes_and_a_start_and_may_ask_for_the_whole_result(model):
    data = make_data()
    assert "propagation" not in model(data)
    data.num_classes, data.keep_propagation = 5, True
    with pytest.warns(GraphWarning, match=r"class\(es\)"):
        first = model(data)
    assert first.propagation.u.shape == first.pseudo_prob.shape == (90, 5)
    assert first.propagation.label is first.pseudo_y
    data.u0 = first.propagation.u
    with pytest.warns(GraphWarning):
        again = model(data)
    with pytest.warns(GraphWarning):
        expected = model.propagate(data.y, data.edge_index, data.train_mask, data.edge_weight, 5, data.u0)
    assert_same(again.propagation, expected)


@pytest.mark.parametrize(
    "name",
    ["crepe_propagation", "lgc", "harmonic", "nearest_neighbor", "random_walk", "wnll", "poisson", "centered_kernel"],
)
def test_functional_name(name):
    (data,) = getattr(DatasetAdapter([make_data()]), name)()
    assert data.pseudo_y.shape == (90,)


def test_classes_as_a_column(model):
    data = make_data()
    column = data.clone()
    column.y = data.y.unsqueeze(1)
    assert_same(run(model, data), run(model, column))


def test_indices_or_nothing_instead_of_a_mask(model):
    data = make_data()
    indices = data.train_mask.nonzero().view(-1)
    expected = run(model, data)
    assert_same(expected, model.propagate(data.y, data.edge_index, indices, data.edge_weight))
    marked = torch.where(data.train_mask, data.y, -1)
    assert_same(expected, model.propagate(marked, data.edge_index, edge_weight=data.edge_weight))


def test_any_form_of_the_graph(model):
    data = make_data()
    row, col = data.edge_index.numpy()
    coo = torch.sparse_coo_tensor(data.edge_index, data.edge_weight, (90, 90), check_invariants=True)
    expected = run(model, data)
    scipy_graph = sp.csr_matrix((data.edge_weight.numpy(), (row, col)), (90, 90))
    for graph in (coo, scipy_graph):
        assert_same(expected, model.propagate(data.y, graph, data.train_mask))
    attr = Data(edge_index=data.edge_index, edge_attr=data.edge_weight, y=data.y, train_mask=data.train_mask)
    assert torch.equal(model(attr).pseudo_prob, expected.prob)
    column = Data(edge_index=data.edge_index, edge_attr=data.edge_weight[:, None], y=data.y, train_mask=data.train_mask)
    assert torch.equal(model(column).pseudo_prob, expected.prob)
    adj_t = Data(adj_t=coo, y=data.y, train_mask=data.train_mask, num_nodes=90)
    assert torch.equal(model(adj_t).pseudo_prob, expected.prob)


def test_edge_features_are_not_weights():
    data = make_data()
    features = Data(
        edge_index=data.edge_index, edge_attr=torch.randn(data.num_edges, 4), y=data.y, train_mask=data.train_mask
    )
    unweighted = LGC().propagate(data.y, data.edge_index, data.train_mask)
    assert torch.equal(LGC()(features).pseudo_prob, unweighted.prob)


def test_a_batch_of_graphs_is_a_disconnected_graph(model):
    parts = [make_data(seed=s) for s in (0, 1)]
    batch = model(Batch.from_data_list(parts))
    assert batch.pseudo_y.shape == (180,)
    for part, found in zip(parts, batch.pseudo_y.split(90), strict=True):
        assert float((found != part.y).double().mean()) < 0.3


def test_several_types_of_nodes_are_refused(model):
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.ones(3, 2), torch.ones(4, 2)
    with pytest.raises(ValueError, match=r"'data' must be a Data or a Batch.*'paper', 'author'.*to_homogeneous"):
        model(data)


def test_numpy_arrays_give_the_bits_of_tensors_and_stay_as_they_are(model):
    data = make_data()
    given = [data[name].numpy().copy() for name in ("y", "edge_index", "train_mask", "edge_weight")]
    for array in given:
        array.flags.writeable = False
    before = [array.copy() for array in given]
    result = model.propagate(*given)
    assert_same(result, run(model, data))
    assert all(np.array_equal(one, other) for one, other in zip(given, before, strict=True))
    assert all(isinstance(getattr(result, name), torch.Tensor) for name in ("u", "label", "prob", "certainty"))


@pytest.mark.parametrize("kind", [np.int32, np.uint8])
def test_numpy_indices_small_integers_and_views_are_read(kind):
    data = make_data()
    backwards = data.edge_index.numpy()[:, ::-1]
    labelled = data.train_mask.nonzero().view(-1).numpy()
    weight = data.edge_weight.numpy()[::-1]
    result = LGC().propagate(data.y.numpy().astype(kind), backwards, labelled, weight)
    assert_same(result, run(LGC(), data))


def test_numpy_arrays_without_numbers_are_refused():
    data = make_data()
    with pytest.raises(ValueError, match="'y' must hold numbers, got an array of <U1"):
        LGC().propagate(np.array(["a"] * 90), data.edge_index, data.train_mask)


def test_the_result_shares_no_memory_with_numpy_input():
    data = make_data()
    y = np.stack([(data.y == c).numpy() for c in range(3)], axis=1).astype(np.int64)
    result = LGC().propagate(y, data.edge_index.numpy(), data.train_mask.numpy())
    result.label.fill_(7)
    assert int(y.max()) == 1


def test_several_splits_in_one_mask_are_refused(model):
    data = make_data()
    data.train_mask = torch.stack([data.train_mask, data.train_mask], dim=1)
    with pytest.raises(ValueError, match="it holds several splits, pick one"):
        model(data)


# ---------------------------------------------------------------- what is no error


def test_isolated_nodes_and_islands_get_no_label_and_one_counted_warning(model):
    data = make_data()
    extra = torch.tensor([[90, 91, 91, 92], [91, 90, 92, 91]])  # a path of three without a label; 93, 94 isolated
    edge_index = torch.cat([data.edge_index, extra], dim=1)
    weight = torch.cat([data.edge_weight, torch.ones(4, dtype=torch.float64)])
    y = torch.cat([data.y, torch.tensor([0, 0, 0, 2, 0])])
    mask = torch.cat([data.train_mask, torch.tensor([False, False, False, True, False])])
    with pytest.warns(GraphWarning, match=r"^4 node\(s\) lie in components without a label") as caught:
        result = model.propagate(y, edge_index, mask, weight)
    assert len(caught) == 1
    assert result.label[90:].tolist() == [-1, -1, -1, 2, -1]  # an isolated labelled node keeps its label
    torch.testing.assert_close(result.prob[90], torch.full((3,), 1 / 3, dtype=torch.float64))
    assert result.prob[93].tolist() == [0, 0, 1]
    assert result.certainty[90:].tolist() == [0, 0, 0, 1, 0]
    assert result.reached[90:].tolist() == [False, False, False, True, False]
    assert not bool(result.pseudo_mask[90:].any())
    # What no label reaches does not touch the rest.
    alone = run(model, data)
    assert torch.equal(result.u[:90], alone.u)
    assert torch.equal(result.prob[:90], alone.prob)


def test_gaps_in_class_ids_and_classes_without_a_label_are_never_predicted(model):
    data = make_data()
    gapped = data.clone()
    gapped.y = torch.tensor([0, 2, 5])[data.y]
    with pytest.warns(GraphWarning, match=r"class\(es\) \[1, 3, 4\] have no labelled node"):
        result = run(model, gapped)
    plain = run(model, data)
    assert result.prob.shape == (90, 6)
    assert torch.equal(result.label, torch.tensor([0, 2, 5])[plain.label])
    assert torch.equal(result.prob[:, [0, 2, 5]], plain.prob)
    assert float(result.prob[:, [1, 3, 4]].abs().max()) == 0
    with pytest.warns(GraphWarning, match=r"class\(es\) \[3\]"):
        assert run(model, data, num_classes=4).prob.shape == (90, 4)


def test_one_class_alone_is_given_to_every_reached_node(model):
    data = make_data()
    data.y = torch.zeros_like(data.y)
    result = run(model, data)
    assert result.prob.shape == (90, 1)
    assert result.label.tolist() == [0] * 90
    assert result.certainty.tolist() == [1.0] * 90


def test_self_loops_repeats_and_one_way_edges_are_repaired_with_one_warning(model):
    data = make_data()
    messy = data.clone()
    messy.edge_index = torch.cat([data.edge_index[:, 1:], torch.tensor([[5], [5]])], dim=1)
    messy.edge_weight = torch.cat([data.edge_weight[1:], torch.ones(1, dtype=torch.float64)])
    with pytest.warns(GraphWarning, match=r"1 self-loop\(s\) dropped; 1 one-way edge\(s\) taken both ways") as caught:
        result = run(model, messy)
    assert len(caught) == 1
    assert_same(result, run(model, data))


def test_duplicate_points_are_finite(model):
    x = torch.cat(
        [torch.zeros(20, 3), torch.ones(20, 3), torch.randn(20, 3, generator=torch.Generator().manual_seed(0))]
    )
    y = torch.arange(60) // 20
    edge_index, edge_weight = knn_graph(x, 5, metric="euclidean")
    mask = torch.zeros(60, dtype=torch.bool)
    mask[[0, 1, 20, 21, 40, 41]] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)  # duplicates may cut themselves off
        result = model.propagate(y, edge_index, mask, edge_weight)
    assert bool(torch.isfinite(result.u).all())
    assert bool(torch.isfinite(result.prob).all())


def test_everything_labelled(model):
    data = make_data()
    data.train_mask[:] = True
    result = run(model, data)
    assert torch.equal(result.label, data.y)
    assert not bool(result.pseudo_mask.any())


def test_equal_points_are_finite(model):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 4, generator=generator)
    x[:30] = x[0]
    y = (x[:, 0] > x[:, 0].median()).long()
    mask = torch.zeros(100, dtype=torch.bool)
    mask[[0, 40, 50, 60, 70, 80]] = True
    edge_index, edge_weight = knn_graph(x, 10, metric="euclidean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal points may close themselves off
        result = model.propagate(y, edge_index, mask, edge_weight)
    assert bool(torch.isfinite(result.u).all() & torch.isfinite(result.prob).all())
    assert result.status == "converged"
    assert result.label[result.reached].min() >= 0


def test_a_class_with_a_single_label(model):
    data = make_data()
    only = (data.train_mask & (data.y == 2)).nonzero().view(-1)
    data.train_mask[only[1:]] = False
    result = run(model, data)
    assert result.status == "converged"
    assert bool(torch.isfinite(result.prob).all())
    assert int(result.label[only[0]]) == 2
    assert set(result.label.tolist()) == {0, 1, 2}


def test_a_class_that_only_touches_other_labels_is_no_obstacle(model):
    # Node 90 of class 3 has one neighbour, which is labelled: the column of its class may be zero in a solver.
    data = make_data()
    neighbour = int(data.train_mask.nonzero()[0])
    tie = torch.tensor([[90, neighbour], [neighbour, 90]])
    result = model.propagate(
        torch.cat([data.y, torch.tensor([3])]),
        torch.cat([data.edge_index, tie], dim=1),
        torch.cat([data.train_mask, torch.tensor([True])]),
        torch.cat([data.edge_weight, torch.ones(2, dtype=torch.float64)]),
    )
    assert result.status == "converged"
    assert bool(torch.isfinite(result.u).all() & torch.isfinite(result.prob).all())
    assert int(result.label[90]) == 3
    assert float((result.label[:90] != data.y).double().mean()) < 0.4  # a guess has 2/3


def test_components_with_one_class_each(model):
    parts = [make_data(seed=s) for s in (0, 1)]
    for part, only in zip(parts, (0, 1), strict=True):
        part.y[part.train_mask] = only
    batch = Batch.from_data_list(parts)
    result = model.propagate(batch.y, batch.edge_index, batch.train_mask, batch.edge_weight)
    assert result.status == "converged"
    assert bool(torch.isfinite(result.u).all() & torch.isfinite(result.prob).all())


# ---------------------------------------------------------------- class volumes


def with_volume(model: EnergyModel, bind_volume, soft_label: str = "calibrated") -> EnergyModel:
    model = copy.copy(model)
    model.bind_volume, model.soft_label = bind_volume, soft_label
    return model


@pytest.mark.parametrize("soft_label", ["calibrated", "relative"])
def test_every_class_gets_its_volume_and_soft_labels_agree(model, soft_label):
    data = make_data()
    result = run(with_volume(model, torch.tensor([1.0, 2.0, 3.0]), soft_label), data)
    assert torch.bincount(result.label).tolist() == [15, 30, 45]
    assert torch.equal(result.prob.argmax(dim=1), result.label)
    assert torch.equal(result.label[data.train_mask], data.y[data.train_mask])
    torch.testing.assert_close(result.prob.sum(dim=1), torch.ones(90, dtype=torch.float64))


def test_volume_leaves_the_class_functions_alone(model):
    data = make_data()
    assert torch.equal(run(with_volume(model, "uniform"), data).u, run(model, data).u)


@pytest.mark.parametrize("soft_label", ["calibrated", "relative"])
def test_every_finding_gets_its_volume(model, soft_label):
    data = make_data(num_labels=15)
    model = with_volume(model, torch.tensor([0.2, 0.3, 0.4, 0.7]), soft_label)
    result = model.propagate(findings(data), data.edge_index, data.train_mask, data.edge_weight)
    assert result.label.sum(dim=0).tolist() == [18, 27, 36, 63]
    assert torch.equal(result.prob > 0.5, result.label == 1)


# ---------------------------------------------------------------- multi-label


def findings(data: Data) -> torch.Tensor:
    y = (data.y.unsqueeze(1) == torch.arange(3)).long()
    return torch.cat([y, (data.y.unsqueeze(1) > 0).long()], dim=1)


def test_findings_are_labelled_on_their_own(model):
    data = make_data(num_labels=15)
    y = findings(data)
    result = model.propagate(y, data.edge_index, data.train_mask, data.edge_weight)
    assert result.label.shape == result.prob.shape == result.u.shape == (90, 4)
    assert set(result.label.unique().tolist()) == {0, 1}
    assert torch.equal(result.label[data.train_mask], y[data.train_mask])
    assert float((result.label != y).double().mean()) < 0.25
    assert 0 <= float(result.certainty.min()) <= float(result.certainty.max()) <= 1


@pytest.mark.parametrize("unknown", [-1.0, float("nan")])
def test_unknown_entries_of_labelled_rows_are_inferred(model, unknown):
    data = make_data(num_labels=15)
    y = findings(data).double()
    first = data.train_mask.nonzero().view(-1)[0]
    y[first, 0] = unknown
    result = model.propagate(y, data.edge_index, data.train_mask, data.edge_weight)
    assert 0 < float(result.prob[first, 0]) < 1
    assert result.prob[first, 1:].tolist() == y[first, 1:].tolist()


def test_finding_without_a_known_positive_keeps_its_prior_and_no_certainty(model):
    data = make_data(num_labels=15)
    y = findings(data)
    y[:, 3] = 0
    with pytest.warns(GraphWarning, match=r"finding\(s\) \[3\] have no known positive or no known negative"):
        result = model.propagate(y, data.edge_index, data.train_mask, data.edge_weight)
    free = result.pseudo_mask
    torch.testing.assert_close(result.prob[free, 3], torch.full((int(free.sum()),), 1 / 17, dtype=torch.float64))
    assert result.label[free, 3].tolist() == [0] * int(free.sum())
    assert float(result.certainty[free].max()) <= 0.75 + 1e-12


def test_unreached_rows_of_findings():
    data = make_data(num_labels=15)
    y = torch.cat([findings(data), torch.zeros(1, 4, dtype=torch.long)])
    mask = torch.cat([data.train_mask, torch.tensor([False])])
    with pytest.warns(GraphWarning, match=r"1 node\(s\)"):
        result = CrepePropagation().propagate(y, data.edge_index, mask, data.edge_weight)
    assert result.label[90].tolist() == [-1] * 4
    assert result.prob[90].tolist() == [0.5] * 4
    assert float(result.certainty[90]) == 0


# ---------------------------------------------------------------- bad input


BAD = {
    "no label": (lambda d: d.update(train_mask=torch.zeros(90, dtype=torch.bool)), "'mask' must mark at least one"),
    "short mask": (
        lambda d: d.update(train_mask=torch.ones(3, dtype=torch.bool)),
        r"'mask' must be of shape \[num_nodes\] = \[90\]",
    ),
    "float mask": (lambda d: d.update(train_mask=torch.ones(90)), "'mask' must be bool"),
    "index out of range": (
        lambda d: d.update(train_mask=torch.tensor([0, 90])),
        r"'mask' must hold node indices in \[0, 89\], got 90",
    ),
    "negative label": (lambda d: d.update(y=d["y"] - 5), "'y' must be >= 0 where 'mask' is True, got -5"),
    "float classes": (lambda d: d.update(y=d["y"].double()), "'y' of shape .* must be of an integer dtype"),
    "label too large": (lambda d: d.update(num_classes=2), "'y' must be below num_classes = 2"),
    "num_classes 0": (lambda d: d.update(num_classes=0), "'num_classes' must be an integer >= 1, got 0"),
    "3-D y": (lambda d: d.update(y=d["y"].view(90, 1, 1)), r"'y' must be of shape .* got \[90, 1, 1\]"),
    "y is a list": (lambda d: d.update(y=d["y"].tolist()), "'y' must be a torch.Tensor, got list"),
    "other findings": (lambda d: d.update(y=torch.full((90, 3), 2)), "must hold 0, 1, and -1 or NaN"),
    "columns": (lambda d: d.update(y=torch.ones(90, 3), num_classes=4), "'num_classes' must be the number of columns"),
    "num_nodes": (lambda d: d.update(num_nodes=91), "'y' must have one row per node, num_nodes = 91, got 90"),
    "index range": (lambda d: d.update(edge_index=d["edge_index"] + 5), "'edge_index' must hold node numbers in"),
    "negative index": (
        lambda d: d.update(edge_index=d["edge_index"] - 1),
        "'edge_index' must hold node numbers >= 0, got -1",
    ),
    "index shape": (
        lambda d: d.update(edge_index=d["edge_index"].t()),
        r"'edge_index' must be of shape \[2, num_edges\]",
    ),
    "index dtype": (
        lambda d: d.update(edge_index=d["edge_index"].double()),
        "'edge_index' must be of dtype torch.int64",
    ),
    "negative weight": (lambda d: d.update(edge_weight=-d["edge_weight"]), "'edge_weight' must be finite and >= 0"),
    "NaN weight": (
        lambda d: d.update(edge_weight=d["edge_weight"] * np.nan),
        "'edge_weight' must be finite and >= 0, got nan",
    ),
    "weight length": (lambda d: d.update(edge_weight=torch.ones(4)), "'edge_weight' must be of shape"),
    "start shape": (lambda d: d.update(u0=torch.ones(90, 2)), r"'u0' must be .* \[90, 3\], got shape \[90, 2\]"),
    "start NaN": (lambda d: d.update(u0=torch.full((90, 3), np.nan)), "'u0' must be a finite tensor"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_before_any_work(case, model, monkeypatch):
    monkeypatch.setattr(type(model), "_solve", lambda *_: pytest.fail("work was done on bad input"))
    data = make_data()
    arguments = {
        "y": data.y,
        "edge_index": data.edge_index,
        "train_mask": data.train_mask,
        "edge_weight": data.edge_weight,
    }
    damage, message = BAD[case]
    damage(arguments)
    with pytest.raises(ValueError, match=message):
        model.propagate(mask=arguments.pop("train_mask"), **arguments)


def test_data_without_labels_mask_or_graph_is_refused(model):
    data = make_data()
    for missing, message in (
        ("y", "'data.y' must be"),
        ("train_mask", "'data.train_mask' must be"),
        ("edge_index", "'data' must hold a graph"),
    ):
        broken = data.clone()
        del broken[missing]
        with pytest.raises(ValueError, match=message):
            model(broken)
        assert "pseudo_y" not in broken


@pytest.mark.parametrize("largest", [2_000_000_000, 50_000])
def test_huge_gaps_between_class_ids_are_one_line_before_any_work(largest):
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    y = torch.tensor([0, -1, -1, largest])
    with pytest.raises(
        ValueError, match=rf"got the class {largest} and 2 class\(es\) in all; .*return_inverse"
    ) as error:
        LGC().propagate(y, edge_index)
    assert "\n" not in str(error.value)


def test_more_classes_than_the_memory_holds_are_one_line():
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    with pytest.raises(ValueError, match="'num_classes' must fit the memory, got 1000000000000 for 4 nodes"):
        LGC().propagate(torch.tensor([0, -1, -1, 1]), edge_index, num_classes=10**12)
