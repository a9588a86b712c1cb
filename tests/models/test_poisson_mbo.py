import numpy as np
import pytest
import torch
from helpers import clusters, dense_adjacency, moons

from tg_crepe import ConvergenceWarning, Poisson, PoissonMBO


def labelled(y: torch.Tensor, count: int) -> torch.Tensor:
    mask = torch.zeros(y.numel(), dtype=torch.bool)
    for c in y.unique():
        mask[(y == c).nonzero().view(-1)[:count]] = True
    return mask


def test_a_round_is_forty_steps_of_diffusion_from_one_hot_labels():
    graph, y = clusters(0, num_nodes=60)
    mask = labelled(y, 3)
    model = PoissonMBO(bind_volume="uniform", max_steps=1)
    with pytest.warns(ConvergenceWarning, match="step_limit"):
        result = model.propagate(y, graph.adjacency, mask)
    start = Poisson(bind_volume="uniform").propagate(y, graph.adjacency, mask).label
    w, u = dense_adjacency(graph), np.eye(3)[start.numpy()]
    laplacian = np.diag(w.sum(axis=1)) - w
    known = mask.numpy()[:, None]
    source = known * (np.eye(3)[y.numpy()] - (known * np.eye(3)[y.numpy()]).sum(axis=0) / known.sum())
    for _ in range(40):
        u = u - (laplacian @ u - source) / w.sum(axis=1).max()
    np.testing.assert_allclose(result.u.numpy(), u, atol=1e-12)


def test_it_ends_where_no_label_changes_and_every_class_has_its_volume():
    graph, y = clusters(1, num_nodes=90)
    result = PoissonMBO(bind_volume=torch.bincount(y).double()).propagate(y, graph.adjacency, labelled(y, 2))
    assert result.status == "converged"
    assert int(result.trace["changed"][-1]) == 0
    assert torch.bincount(result.label).tolist() == torch.bincount(y).tolist()


def test_volumes_decide_where_the_classes_are_not_equal():
    graph, y = moons(0, num_nodes=200)
    mask = labelled(y, 1)
    share = []
    for volume in ([0.3, 0.7], [0.5, 0.5]):
        label = PoissonMBO(bind_volume=torch.tensor(volume), max_steps=100).propagate(y, graph.adjacency, mask).label
        share.append(int((label == 0).sum()))
    assert share == [60, 100]


def test_volumes_must_be_given():
    with pytest.raises(ValueError, match="'bind_volume' must be"):
        PoissonMBO(bind_volume=None)
