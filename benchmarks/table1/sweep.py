"""One model at several values of one parameter, and the value that a hold-out of the labels alone would choose."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe import EnergyModel, PropagationResult, get_energy_model
from tg_crepe.graph import CanonicalGraph, canonical_graph
from tg_crepe.inference.labels import read_labels
from tg_crepe.typing import Adjacency, OptTensor

#: The relative residual of the solves that only choose a value.
_LOOSE = 1e-3


@dataclass(frozen=True)
class Swept:
    """The answers at every value, and the value that was chosen."""

    results: dict[float, PropagationResult]
    choice: float


@dataclass(frozen=True)
class Sweep:
    r"""Solves a model at every value, and chooses one by K-fold hold-out of the labelled nodes.

    The labels of every class are dealt at random into folds. A fold at a time is hidden and predicted from the others;
    the value with the fewest errors at hidden labels is chosen, the first of them on a tie. A class with one label
    keeps it. Where no class has two, the first value is taken. No other label is seen.

    Args:
        name (str): The name of the model, see :func:`~tg_crepe.get_energy_model`.
        option (str): The name of its argument.
        values (tuple): What is tried, the published value first.
        folds (int, optional): The number of folds. (default: :obj:`3`)
    """

    name: str
    option: str
    values: tuple[float, ...]
    folds: int = 3

    def __call__(self, y: Tensor, edge_index: Adjacency, mask: Tensor, edge_weight: OptTensor, seed: int) -> Swept:
        """The answers to what :meth:`EnergyModel.propagate` is asked; the seed is that of the folds."""
        graph = canonical_graph(edge_index, edge_weight, y.numel())[0]  # once for all
        fold = deal_folds(torch.where(mask, y, -1), self.folds, torch.Generator().manual_seed(seed))
        errors = dict.fromkeys(self.values, 0)
        for hidden in (fold == number for number in range(self.folds)):
            if bool(hidden.any()):
                for value in self.values:
                    found = _infer(self._model(value, tol=_LOOSE), y, mask & ~hidden, graph).label
                    errors[value] += int((found != y)[hidden].sum())
        results = {value: _infer(self._model(value), y, mask, graph) for value in self.values}
        return Swept(results, min(errors, key=lambda value: errors[value]))  # the first of equals

    def _model(self, value: float, **options: float) -> EnergyModel:
        # Hard labels alone are asked for: the paper's soft ones cost nothing.
        return get_energy_model(self.name, **{self.option: value}, soft_label="relative", **options)


def _infer(model: EnergyModel, y: Tensor, mask: Tensor, graph: CanonicalGraph) -> PropagationResult:
    """The answer on a graph that is prepared."""
    with torch.no_grad():
        return model.infer(read_labels(y, mask, None, None), lambda: (graph, []))


def deal_folds(y: Tensor, folds: int, generator: torch.Generator) -> Tensor:
    """The fold of every node, -1 where it is never hidden: unlabelled, or the only label of its class."""
    fold = torch.full_like(y, -1)
    dealt = 0
    for c in range(int(y.max()) + 1):
        members = (y == c).nonzero().view(-1)
        if members.numel() > 1:
            members = members[torch.randperm(members.numel(), generator=generator)]
            fold[members] = (torch.arange(members.numel()) + dealt) % folds
            dealt += members.numel()
    return fold
