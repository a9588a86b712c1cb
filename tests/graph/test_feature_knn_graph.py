import math

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.datapipes import DatasetAdapter

from tg_crepe import FeatureKNNGraph, GraphWarning, knn_graph


def features(num_nodes=30, seed=0):
    return torch.randn(num_nodes, 4, generator=torch.Generator().manual_seed(seed))


def test_the_transform_writes_the_graph_of_the_features():
    data = FeatureKNNGraph(k=3)(Data(x=features()))
    edge_index, edge_weight = knn_graph(features(), 3)
    assert torch.equal(data.edge_index, edge_index)
    assert torch.equal(data.edge_weight, edge_weight)
    assert set(data.keys()) == {"x", "edge_index", "edge_weight"}
    assert data.num_nodes == 30


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "euclidean"},
        {"metric": "cosine"},
        {"backend": "torch"},
        {"kernel": "uniform"},
        {"kernel": "cosine"},
        {"symmetrize": "mutual"},
    ],
)
def test_every_option_reaches_the_graph(options):
    data = FeatureKNNGraph(k=4, **options)(Data(x=features()))
    edge_index, edge_weight = knn_graph(features(), 4, **options)
    assert torch.equal(data.edge_index, edge_index)
    assert torch.equal(data.edge_weight, edge_weight)


def test_the_default_is_twenty_neighbours():
    data = FeatureKNNGraph()(Data(x=features()))
    assert torch.equal(data.edge_index, knn_graph(features(), 20)[0])


def test_what_belonged_to_former_edges_is_removed():
    old = torch.tensor([[0, 1], [1, 0]])
    adj_t = torch.sparse_coo_tensor(old, torch.ones(2), (30, 30), check_invariants=True)
    y = torch.arange(30)
    data = Data(x=features(), y=y, edge_index=old, edge_attr=torch.ones(2, 3), edge_weight=torch.ones(2), adj_t=adj_t)
    result = FeatureKNNGraph(k=3)(data)
    assert set(result.keys()) == {"x", "y", "edge_index", "edge_weight"}
    assert torch.equal(result.edge_weight, knn_graph(features(), 3)[1])
    assert torch.equal(result.y, y)


def test_the_given_data_are_not_modified():
    old = torch.tensor([[0, 1], [1, 0]])
    data = Data(x=features(), edge_index=old, edge_attr=torch.ones(2, 3))
    FeatureKNNGraph(k=3)(data)
    assert set(data.keys()) == {"x", "edge_index", "edge_attr"}
    assert data.edge_index is old
    assert torch.equal(data.x, features())


def test_repr_shows_neighbours_and_metric():
    assert repr(FeatureKNNGraph()) == "FeatureKNNGraph(k=20, metric='auto')"
    assert repr(FeatureKNNGraph(k=5, metric="euclidean")) == "FeatureKNNGraph(k=5, metric='euclidean')"


def test_the_transform_composes():
    transform = T.Compose([T.NormalizeFeatures(), FeatureKNNGraph(k=3), T.ToUndirected()])
    data = transform(Data(x=features().abs()))
    x = T.NormalizeFeatures()(Data(x=features().abs())).x
    edge_index, edge_weight = knn_graph(x, 3)
    order = torch.argsort(edge_index[0] * 30 + edge_index[1])
    assert torch.equal(data.edge_index, edge_index[:, order])  # already both ways, so only sorted
    assert data.edge_weight.numel() == edge_weight.numel()


def test_the_functional_name_works_on_a_datapipe():
    given = [Data(x=features(seed=seed)) for seed in range(3)]
    results = list(DatasetAdapter(given).feature_knn_graph(k=3))
    assert len(results) == 3
    for seed, data in enumerate(results):
        assert torch.equal(data.edge_index, knn_graph(features(seed=seed), 3)[0])


def test_zero_rows_are_warned_of_once():
    x = features()
    x[:2] = 0
    with pytest.warns(GraphWarning, match=r"2 zero row\(s\)") as record:
        FeatureKNNGraph(k=3, metric="cosine")(Data(x=x))
    assert len(record) == 1


def test_data_without_features_are_refused():
    with pytest.raises(ValueError, match=r"'data.x' must hold features .* got None"):
        FeatureKNNGraph(k=3)(Data(edge_index=torch.tensor([[0], [1]])))


def test_too_many_neighbours_for_the_data_are_refused():
    with pytest.raises(ValueError, match="'k' must be an integer in"):
        FeatureKNNGraph(k=30)(Data(x=features()))


@pytest.mark.parametrize(
    "options",
    [{"k": 0}, {"k": True}, {"k": 2.0}, {"metric": "l2"}, {"backend": "x"}, {"kernel": "x"}, {"symmetrize": "x"}],
)
def test_options_are_checked_at_construction(options):
    with pytest.raises(ValueError, match=f"'{next(iter(options))}' must be"):
        FeatureKNNGraph(**options)


# ---------------------------------------------------------------- batches


def make_batch(sizes=(30, 12, 25)) -> Batch:
    return Batch.from_data_list([Data(x=features(size, seed)) for seed, size in enumerate(sizes)])


def test_graphs_of_a_batch_are_never_joined():
    data = FeatureKNNGraph(k=5)(make_batch())
    assert torch.equal(data.batch[data.edge_index[0]], data.batch[data.edge_index[1]])
    assert bool((torch.bincount(data.edge_index[0], minlength=67) >= 5).all())


def test_a_batch_has_the_graphs_of_its_parts():
    data = FeatureKNNGraph(k=5, metric="euclidean")(make_batch())
    parts = data.to_data_list()
    assert len(parts) == 3
    for seed, (size, part) in enumerate(zip((30, 12, 25), parts, strict=True)):
        edge_index, edge_weight = knn_graph(features(size, seed), 5, metric="euclidean")
        assert torch.equal(part.x, features(size, seed))
        assert torch.equal(part.edge_index, edge_index)
        assert torch.equal(part.edge_weight, edge_weight)


def test_a_batch_with_former_edges_can_be_taken_apart():
    old = torch.tensor([[0, 1], [1, 0]])
    given = Batch.from_data_list(
        [
            Data(x=features(9, seed), edge_index=old, edge_attr=torch.ones(2, 3), y=torch.full((9,), seed))
            for seed in (0, 1)
        ]
    )
    parts = FeatureKNNGraph(k=3)(given).to_data_list()
    assert [set(part.keys()) for part in parts] == [{"x", "y", "edge_index", "edge_weight"}] * 2
    assert [int(part.edge_index.max()) for part in parts] == [8, 8]
    assert [part.y.unique().tolist() for part in parts] == [[0], [1]]
    assert torch.equal(given[1].edge_index, old)  # the given batch is as it was


def test_a_small_graph_joins_all_its_nodes_and_one_node_none():
    data = FeatureKNNGraph(k=10, metric="euclidean")(make_batch((30, 4, 1, 2)))
    dense = torch.zeros(37, 37)
    dense[data.edge_index[0], data.edge_index[1]] = data.edge_weight
    assert torch.equal(dense[30:34, 30:34] > 0, ~torch.eye(4, dtype=torch.bool))
    assert not bool(dense[34].any())
    assert float(dense[35, 36]) == pytest.approx(math.exp(-4))  # the only neighbour is the farthest one
    assert [part.num_edges for part in data.to_data_list()][1:] == [12, 0, 2]


def test_graphs_are_kept_apart_where_only_their_numbers_are_given():
    batch = torch.arange(30) % 2
    for data in (Data(x=features(), batch=batch), Batch(x=features(), batch=batch)):
        edge_index = FeatureKNNGraph(k=3)(data).edge_index
        assert edge_index.numel()
        assert torch.equal(batch[edge_index[0]], batch[edge_index[1]])


def test_a_batch_of_single_nodes_has_no_edges():
    data = FeatureKNNGraph(k=3, metric="euclidean")(make_batch((1, 1)))
    assert data.edge_index.shape == (2, 0)
    assert data.edge_weight.shape == (0,)


def test_a_batch_of_several_node_types_is_refused():
    data = HeteroData()
    data["paper"].x = features()
    with pytest.raises(ValueError, match=r"'data' must be a Data or a Batch.*got HeteroData.*'paper'.*to_homogeneous"):
        FeatureKNNGraph(k=3)(data)
