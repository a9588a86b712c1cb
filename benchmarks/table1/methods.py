"""The rows of ``table1``: every energy model of the package, its rivals with fair parameters, and the peers."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from shared.fingerprint import code, fingerprint
from shared.without_flow import without_flow
from table1.sweep import Sweep
from torch import Tensor

from tg_crepe import get_energy_model
from tg_crepe.models.registry import ENERGY_MODELS

#: What a row is to the comparison. Only a tuned one has seen a test label.
CREPE, INSIDE, MODEL, PEER, TUNED = "CREPE", "part of CREPE", "model", "peer", "tuned on test labels"


@dataclass(frozen=True)
class Problem:
    """What a method gets to see."""

    y: Tensor  # [num_nodes], -1 where it is not known
    mask: Tensor  # [num_nodes], which nodes are labelled
    edge_index: Tensor  # [2, num_edges], both directions
    edge_weight: Tensor  # [num_edges]
    seed: int  # for methods that draw


@dataclass(frozen=True)
class Prediction:
    """What a method answers; ``name`` and ``role`` where a run answers for several rows."""

    label: Tensor
    status: str = ""
    choice: str = ""  # the value of a parameter that the method chose by itself
    name: str = ""
    role: str = ""


class _Predict:
    """A method; its ``repr`` holds every setting."""

    missing = False  # whether something that it needs is not installed

    @property
    def depends(self) -> str:
        """What else the answer depends on."""
        raise NotImplementedError

    def __call__(self, problem: Problem) -> list[Prediction]:
        raise NotImplementedError


@dataclass(frozen=True)
class _Energy(_Predict):
    """A model of the package by its name in the registry, perhaps made by one of its class methods."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    maker: str = ""

    def __call__(self, problem: Problem) -> list[Prediction]:
        model = get_energy_model(self.name, **self.options)
        if self.maker:
            model = getattr(type(model), self.maker)()
        result = model.propagate(problem.y, problem.edge_index, problem.mask, problem.edge_weight)
        return [Prediction(result.label, result.status)]

    @property
    def depends(self) -> str:
        return fingerprint(f"tg_crepe.models.{self.name}")

    @property
    def missing(self) -> bool:  # type: ignore[override]
        return self.name not in ENERGY_MODELS or find_spec(f"tg_crepe.models.{self.name}") is None


@dataclass(frozen=True)
class _StartOfCrepe(_Predict):
    """What CREPE is before its flow: the re-weighted diffusion with the same rate, volumes and decision."""

    def __call__(self, problem: Problem) -> list[Prediction]:
        result = without_flow().propagate(problem.y, problem.edge_index, problem.mask, problem.edge_weight)
        return [Prediction(result.label, result.status)]

    @property
    def depends(self) -> str:
        return fingerprint("tg_crepe.models.crepe.model") + fingerprint("shared.without_flow")


@dataclass(frozen=True)
class _HoldOut(_Predict):
    """A model at the value of a parameter that a hold-out of the labels chooses, and at every other value beside it."""

    sweep: Sweep
    label: str  # of the rows with one value

    def __call__(self, problem: Problem) -> list[Prediction]:
        swept = self.sweep(problem.y, problem.edge_index, problem.mask, problem.edge_weight, problem.seed)
        chosen = swept.results[swept.choice]
        others = [
            Prediction(result.label, result.status, name=self.label.format(value), role=TUNED)
            for value, result in swept.results.items()
        ]
        return [Prediction(chosen.label, chosen.status, f"{swept.choice:g}"), *others]

    @property
    def depends(self) -> str:
        return fingerprint(f"tg_crepe.models.{self.sweep.name}") + fingerprint("table1.sweep")


@dataclass(frozen=True)
class _LgcByShare(_Predict):
    """LGC with α = 1 − √ρ, where ρ is the share of the nodes that are labelled: a rule that looks at no label."""

    def __call__(self, problem: Problem) -> list[Prediction]:
        alpha = 1 - float(problem.mask.double().mean().sqrt())
        [found] = _Energy("lgc", {"alpha": alpha})(problem)
        return [replace(found, choice=f"{alpha:.3g}")]

    @property
    def depends(self) -> str:
        return _Energy("lgc").depends


@dataclass(frozen=True)
class _GraphLearning(_Predict):
    """A class of GraphLearning at its own settings."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, problem: Problem) -> list[Prediction]:
        import graphlearning as gl
        from scipy.sparse import csr_matrix

        size = problem.y.numel()
        weight = csr_matrix((problem.edge_weight.double().numpy(), tuple(problem.edge_index.numpy())), (size, size))
        labelled = problem.mask.nonzero().view(-1).numpy()
        np.random.seed(problem.seed)  # noqa: NPY002, its power iteration draws from the global generator
        model = getattr(gl.ssl, self.name)(weight, **self.options)
        label = model.fit_predict(labelled, problem.y.numpy()[labelled])
        return [Prediction(torch.from_numpy(np.asarray(label)).long())]

    @property
    def depends(self) -> str:
        return f"graphlearning {version('graphlearning')}"

    @property
    def missing(self) -> bool:  # type: ignore[override]
        return find_spec("graphlearning") is None


@dataclass(frozen=True)
class _PygLabelPropagation(_Predict):
    """PyG's label propagation; it normalises only where no weight is given, so that is done here."""

    layers: int
    alpha: float

    def __call__(self, problem: Problem) -> list[Prediction]:
        from torch_geometric.nn import LabelPropagation
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        index, weight = gcn_norm(
            problem.edge_index, problem.edge_weight, num_nodes=problem.y.numel(), add_self_loops=False
        )
        model = LabelPropagation(self.layers, self.alpha)
        # One-hot rows are made from all of `y` before the mask is applied, so it must hold no -1.
        found = model(problem.y.clamp(min=0), index, problem.mask, weight)
        return [Prediction(torch.where(found.sum(dim=1) > 0, found.argmax(dim=1), -1))]

    @property
    def depends(self) -> str:
        return f"torch-geometric {version('torch-geometric')}"


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Args:
        name (str): What the table calls it.
        predict (callable): The method.
        seconds (float): Processor seconds of a cell on Fashion-MNIST (70,000 nodes, one thread), for the plan.
        role (str): What it is to the comparison. (default: a model)
        paper (str): The row of the paper's Table 1 that it stands for. (default: none)
        slow_splits (int): How many splits a cell of more than five seconds is run on. (default: 5)
        slow_column (str): The only column where such a cell is run. (default: all)
        connected (bool): Whether it only ends on a graph of one component. (default: :obj:`False`)
    """

    name: str
    predict: _Predict
    seconds: float
    role: str = MODEL
    paper: str = ""
    slow_splits: int = 5
    slow_column: str = ""
    connected: bool = False

    @property
    def settings(self) -> str:
        """All that the method's answer depends on."""
        return f"{self.predict!r} {self.predict.depends} {_own_code(type(self.predict))}"


@cache
def _own_code(kind: type) -> str:
    """A hash of the code of a class in this file, which the fingerprint of the package knows nothing of."""
    return hashlib.sha256(code(inspect.getsource(kind)).encode()).hexdigest()[:12]


# 1 − √(share of labels), which does well, is 0.9 at 1 % and 0.45 at 30 %.
_ALPHA = _HoldOut(Sweep("lgc", "alpha", (0.99, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4)), "LGC, α = {:g}, swept")
_LABEL_WEIGHT = _HoldOut(
    Sweep("harmonic", "label_weight", (1.0, 3.0, 5.0, 10.0)), "harmonic, label edges × {:g}, swept"
)
_PUBLISHED_SLP = _GraphLearning("sparse_label_propagation")

#: Every row, in the order of the table.
METHODS = (
    Method("CREPE", _Energy("crepe"), 3.7, CREPE, paper="Ours"),
    Method("CREPE, the paper's scheme", _Energy("crepe", maker="paper"), 26, CREPE),
    Method("start + re-weighting, no flow", _StartOfCrepe(), 1.9, INSIDE),
    Method("harmonic", _Energy("harmonic"), 2.0, paper="HG"),
    Method("harmonic, label edges × c by hold-out", _LABEL_WEIGHT, 16),
    Method("harmonic, label edges × x/(share of labels)", _Energy("harmonic", {"label_weight": "auto"}), 2.5),
    Method("LGC, α = 0.99", _Energy("lgc"), 1.9, paper="LGC"),
    Method("LGC, α by hold-out", _ALPHA, 9, slow_splits=10),
    Method("LGC, α = 1 − √(share of labels)", _LgcByShare(), 1.2),
    Method("LGC, α = 1/(1 + x)", _Energy("lgc", {"alpha": "auto"}), 2.0),
    Method("LGC, α = 0.99, balanced", _Energy("lgc", {"balanced": True}), 1.9),
    Method("random walk", _Energy("random_walk"), 1.4, paper="LRW"),
    Method("WNLL", _Energy("wnll"), 1.6, paper="WNLL"),
    Method("Poisson", _Energy("poisson"), 3.5, paper="PoL"),
    Method("Poisson-MBO", _Energy("poisson_mbo"), 12, slow_splits=10),
    Method("Volume-MBO", _Energy("volume_mbo"), 6, slow_splits=10),
    Method("CutSSL", _Energy("cut_ssl"), 14, slow_splits=10),
    Method("centred kernel", _Energy("centered_kernel"), 1.4, paper="CK"),
    Method("sparse label propagation", _Energy("sparse_lp"), 5.1),
    Method("sparse label propagation, as published", _Energy("sparse_lp", {"as_published": True}), 5.1, paper="SLP"),
    Method("p-Laplace", _Energy("p_laplace"), 22, slow_splits=3),
    Method("nearest neighbour", _Energy("nearest_neighbor"), 5.2),
    Method("GraphLearning laplace", _GraphLearning("laplace"), 6, PEER, slow_splits=3),
    Method("GraphLearning laplace, WNLL", _GraphLearning("laplace", {"reweighting": "wnll"}), 4.5, PEER, slow_splits=3),
    Method("GraphLearning randomwalk (LGC, α = 0.95)", _GraphLearning("randomwalk"), 3.7, PEER, slow_splits=3),
    Method("GraphLearning poisson", _GraphLearning("poisson"), 5, PEER, slow_splits=3, connected=True),
    Method("GraphLearning centered_kernel", _GraphLearning("centered_kernel"), 18, PEER, slow_splits=1),
    Method("GraphLearning sparse_label_propagation", _PUBLISHED_SLP, 160, PEER, "", 1, "1 %"),
    Method("PyG LabelPropagation (50 layers, α = 0.9)", _PygLabelPropagation(50, 0.9), 14, PEER, slow_splits=3),
)  # fmt: skip
