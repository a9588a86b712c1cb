"""Files of the layout that GraphLearning publishes: J and D with the node itself among its neighbours, and labels."""

import numpy as np
import pytest
import torch
from torch_geometric.utils import to_dense_adj

from tg_crepe import get_energy_model, knn_graph
from tg_crepe.datasets import load_graphlearning


def cloud() -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(60) % 3
    return np.random.default_rng(0).standard_normal((60, 4)) + 3 * np.eye(4)[y], y


def search(x: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """The nearest neighbours of every point, itself first, as GraphLearning stores them."""
    distance = np.linalg.norm(x[:, None] - x, axis=2)
    order = np.argsort(distance, axis=1, kind="stable")[:, :count]
    return {"J": order, "D": np.take_along_axis(distance, order, axis=1)}


@pytest.fixture
def files(tmp_path):
    x, y = cloud()
    np.savez_compressed(tmp_path / "mnist_vae.npz", **search(x, 13))
    np.savez_compressed(tmp_path / "mnist_labels.npz", labels=y)
    return tmp_path / "mnist_vae.npz", tmp_path / "mnist_labels.npz"


def test_it_is_the_graph_of_the_same_points(files):
    data = load_graphlearning(*files, k=8)
    assert data.y.tolist() == cloud()[1].tolist()
    edge_index, edge_weight = knn_graph(torch.from_numpy(cloud()[0]), 8, metric="euclidean")
    assert torch.equal(data.edge_index, edge_index)
    torch.testing.assert_close(data.edge_weight, edge_weight)


def test_the_mean_of_both_directions_is_the_matrix_of_graphlearning(files):
    graphlearning = pytest.importorskip("graphlearning")
    with np.load(files[0]) as arrays:
        expected = graphlearning.weightmatrix.knn(None, 10, knn_data=(arrays["J"], arrays["D"])).toarray()
    data = load_graphlearning(files[0], symmetrize="mean")
    found = to_dense_adj(data.edge_index, edge_attr=data.edge_weight)[0]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_every_model_takes_it(files):
    data = load_graphlearning(*files)
    data.train_mask = torch.arange(60) < 9
    found = get_energy_model("wnll")(data)
    assert float((found.pseudo_y == found.y).double().mean()) > 0.9


def test_labels_may_be_missing_and_the_node_may_stand_behind_its_duplicate(tmp_path):
    neighbor, distance = [[1, 0, 2], [0, 1, 2], [2, 0, 1]], [[0, 0, 1], [0, 0, 1], [0, 1, 1]]
    np.savez(tmp_path / "a.npz", I=np.zeros((3, 3)), J=np.array(neighbor, np.float64), D=np.array(distance))
    data = load_graphlearning(tmp_path / "a.npz", k=2)
    assert "y" not in data
    assert data.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 2, 0, 0, 1]]
    expected = torch.tensor([1, np.exp(-4), np.exp(-4)]).repeat(2)
    torch.testing.assert_close(data.edge_weight, expected)
    assert load_graphlearning(tmp_path / "a.npz", k=1, kernel="uniform").edge_weight.tolist() == [1, 1, 1, 1]


CASES = {
    "another array": ({"J": None}, r"must hold the array\(s\) J, got"),
    "other shapes": ({"D": np.zeros((60, 4))}, r"the same shape .* got \(60, 13\) and \(60, 4\)"),
    "a node that is not there": ({"J": np.full((60, 13), 60)}, r"'J' must be in \[0, 59\], got 60 to 60"),
    "half a node": ({"J": np.full((60, 13), 0.5)}, "'J' must hold the numbers of nodes"),
    "no number": ({"D": np.full((60, 13), "a")}, "must hold numbers"),
    "NaN": ({"D": np.full((60, 13), np.nan)}, "'D' must hold distances >= 0"),
    "not sorted": ({"D": np.tile(np.arange(13.0)[::-1], (60, 1))}, "'D' must ascend"),
    "a pickle": ({"J": np.full((60, 13), None)}, "it holds Python objects"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_error_for_a_file_that_cannot_be_used(case, tmp_path):
    changes, message = CASES[case]
    arrays = {**search(cloud()[0], 13), **changes}
    path = tmp_path / "a.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match=message) as error:
        load_graphlearning(path)
    assert str(error.value).startswith(f"'{path}' cannot be used: ")


def test_one_clear_error_for_what_does_not_fit(files, tmp_path):
    with pytest.raises(
        ValueError, match=r"'k' must be at most 12, the number of neighbours in .*mnist_vae.npz', got 13"
    ):
        load_graphlearning(files[0], k=13)
    with pytest.raises(ValueError, match="'kernel' must be one of"):
        load_graphlearning(files[0], kernel="cosine")
    with pytest.raises(FileNotFoundError, match=r"'root' must be a .npz file, .*none.npz' is missing"):
        load_graphlearning(tmp_path / "none.npz")
    np.savez(tmp_path / "labels.npz", labels=np.zeros(59, np.int64))
    with pytest.raises(ValueError, match=r"'labels' must hold one class for each of the 60 nodes of .* got \(59,\)"):
        load_graphlearning(files[0], tmp_path / "labels.npz")
    (tmp_path / "half.npz").write_bytes(files[0].read_bytes()[:500])
    with pytest.raises(ValueError, match=r"half.npz' cannot be used: it is not a whole .npz"):
        load_graphlearning(tmp_path / "half.npz")
