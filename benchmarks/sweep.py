"""One model at several values of one parameter, and the value that a hold-out of the labels alone would choose."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tg_crepe import EnergyModel, PropagationResult, get_energy_model
from tg_crepe.inference.labels import Labels
from tg_crepe.inference.task import LabelTask, Solution

#: The relative residual of the solves that only choose a value.
_LOOSE = 1e-3


class Sweep(EnergyModel):
    r"""Solves a model at every value, and chooses one by K-fold hold-out of the labelled nodes.

    The labels of every class are dealt at random into folds. A fold at a time is hidden and predicted from the others;
    the value with the fewest errors at hidden labels is chosen, the first of them on a tie. A class with one label
    keeps it. Where no class has two, the first value is taken. No other label is seen.

    The graph is prepared once for all of it, which is most of the work of a single solve.

    Args:
        name (str): The name of the model, see :func:`~tg_crepe.get_energy_model`.
        option (str): The name of its argument.
        values (tuple): What is tried, the published value first.
        folds (int): The number of folds.
        seed (int): The seed of the folds.
    """

    def __init__(self, name: str, option: str, values: tuple[float, ...], folds: int, seed: int) -> None:
        super().__init__()
        self.models = {value: get_energy_model(name, **{option: value}) for value in values}
        self.loose = {value: get_energy_model(name, **{option: value}, tol=_LOOSE) for value in values}
        self.folds = folds
        self.seed = seed
        self.choice = values[0]
        self.solutions: dict[float, Solution] = {}
        self.labels: dict[float, Tensor] = {}

    def _solve(self, task: LabelTask) -> Solution:
        fold = deal_folds(task.y, self.folds, torch.Generator().manual_seed(self.seed))
        errors = dict.fromkeys(self.models, 0)
        for number in range(self.folds):
            hidden = fold == number
            if bool(hidden.any()):
                part = replace(task, sign=torch.where(hidden.unsqueeze(1), 0, task.sign))
                for value, model in self.loose.items():
                    found = model._solve(part).score.argmax(dim=1)
                    errors[value] += int((found != task.y)[hidden].sum())
        self.choice = min(errors, key=lambda value: errors[value])  # the first of equals
        self.solutions = {value: model._solve(task) for value, model in self.models.items()}
        return self.solutions[self.choice]

    def _spread(
        self,
        result: PropagationResult,
        labels: Labels,
        task: LabelTask,
        solution: Solution,
        nodes: Tensor,
        columns: Tensor,
    ) -> None:
        for value, found in self.solutions.items():
            self.labels[value] = result.label.clone()
            self.labels[value][nodes] = columns[found.score.argmax(dim=1)]
        super()._spread(result, labels, task, solution, nodes, columns)


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
