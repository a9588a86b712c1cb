"""CREPE with one stage of its solve replaced by another, each a subclass."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from tg_crepe import CrepePropagation, PropagationResult, Recipe
from tg_crepe.energy.constraint import Constraint, IndependentLabels
from tg_crepe.energy.normaliser import Normaliser
from tg_crepe.graph.cluster_eigenvalue import cluster_eigenvalue
from tg_crepe.graph.spectrum import smallest_eigenpairs
from tg_crepe.inference.held_out import HeldOut
from tg_crepe.inference.rate import screening_rate
from tg_crepe.inference.task import LabelTask
from tg_crepe.models.crepe.start import Start, make_start, trust
from tg_crepe.models.poisson import solve_poisson
from tg_crepe.solvers import FlowObserver
from tg_crepe.solvers.observers import FlowState
from tg_crepe.solvers.ratio_flow import FlowResult

#: The length of the recipe's flow, its steps and their growth; the long flow has six steps beyond them.
TIME, STEPS, GROWTH = Recipe.time, Recipe.steps, Recipe.growth
LONG_STEPS = STEPS + 6

#: One flow of full length from the diffusion, and nothing after it.
_LONG = Recipe(time=TIME * GROWTH ** (LONG_STEPS - STEPS), steps=LONG_STEPS, balancing_rounds=0, restarts=False)


class WithoutRatio(CrepePropagation):
    """A flow without the ratio term: what is left of a step is total variation and the labels."""

    def normaliser(self, start: Start) -> Normaliser:
        """H whose subgradient is zero."""
        normaliser = super().normaliser(start)

        def value_alone(u: Tensor, degree: Tensor, *communicator: Any) -> tuple[Tensor, Tensor]:
            value, subgradient = normaliser(u, degree, *communicator)
            return value, torch.zeros_like(subgradient)

        return value_alone


class WithoutCoupling(CrepePropagation):
    """The margins at labelled nodes, without the coupling of the classes elsewhere."""

    def constraint(self, task: LabelTask) -> Constraint:
        """The margins alone."""
        return IndependentLabels(task.sign, self.recipe.eps)


class OtherExponent(CrepePropagation):
    """x = λ_L p^e, where the recipe has e = ½."""

    def __init__(self, exponent: float) -> None:
        super().__init__()
        self.exponent = exponent

    def rate(self, task: LabelTask) -> float:
        """The rate with the other exponent."""
        return super().rate(task) * (float(task.positive_count.sum()) / task.num_classes) ** (self.exponent - 0.5)


class RateWithIslands(CrepePropagation):
    """λ_L with the zeros that separate components bring."""

    def rate(self, task: LabelTask) -> float:
        """The rate of the other eigenvalue."""
        eigenvalue = max(float(smallest_eigenpairs(task.graph, task.num_classes)[0][-1]), 1e-4)
        factor = eigenvalue / cluster_eigenvalue(task.graph, task.num_classes, task.sources)
        return screening_rate(task, self.recipe.rate_factor * factor)


class StartByLGC(CrepePropagation):
    """The start is the diffusion of LGC with α = 0.99, whatever the graph."""

    def start(self, task: LabelTask, rate: float, held: HeldOut | None) -> Start:
        """The diffusion at that rate."""
        return super().start(task, 1 / 99, held)


class StartByPoisson(CrepePropagation):
    """The start are Poisson learning's scores as soft labels, by a softmax at their own spread."""

    def start(self, task: LabelTask, rate: float, held: HeldOut | None) -> Start:
        """The start of those soft labels."""
        score = solve_poisson(task).score.double()
        return _start_from(
            torch.softmax(score / score.std(), dim=1), task, super().start(task, rate, held), self.recipe
        )


class StartFromLabels(CrepePropagation):
    """The start are the labels where there are any, the class volumes elsewhere."""

    def start(self, task: LabelTask, rate: float, held: HeldOut | None) -> Start:
        """The start of those soft labels."""
        usual = super().start(task, rate, held)
        prob = usual.volume.share.expand(task.graph.num_nodes, -1).clone()
        prob[task.labelled] = (task.sign[task.labelled] > 0).to(prob)
        return _start_from(prob, task, usual, self.recipe)


def _start_from(prob: Tensor, task: LabelTask, usual: Start, recipe: Recipe) -> Start:
    """The start of soft labels that no diffusion made, with the class volumes and the support of the usual one."""
    start = make_start(prob, trust(prob, task, recipe), usual.volume, task, usual.status)
    return replace(start, support=usual.support)


class EvenSources(CrepePropagation):
    """The diffusion of the start has hubs that are no stronger sources than other nodes."""

    def start(self, task: LabelTask, rate: float, held: HeldOut | None) -> Start:
        """The diffusion of other sources."""
        return super().start(_EvenTask(**{part.name: getattr(task, part.name) for part in fields(task)}), rate, held)


class _EvenTask(LabelTask):
    @property
    def sources(self) -> Tensor:
        """One-hot labels divided by the root of the degree."""
        source = super().sources
        return source / self.graph.degree.to(source).sqrt().unsqueeze(-1)


class _Iterates(FlowObserver):
    """Keeps every iterate of a flow."""

    def __init__(self) -> None:
        self.u: list[Tensor] = []

    def on_begin(self, state: FlowState) -> None:
        self.on_step(state)

    def on_step(self, state: FlowState) -> None:
        self.u.append(state.u.clone())


class AlongTheFlow(CrepePropagation):
    """The first flow of the recipe, six steps longer, with its own labels and the sum of ratios of every step."""

    def __init__(self) -> None:
        super().__init__(_LONG)
        self.ratios: list[float] = []
        self.labels: list[Tensor] = []

    def propagate(self, y: Tensor, edge_index: Any, mask: Tensor, edge_weight: Tensor) -> PropagationResult:
        """As the model, and puts the labels of every step in the order of the nodes; -1 where a node is labelled."""
        free = (~mask).nonzero().view(-1)
        result = super().propagate(y, edge_index, mask, edge_weight, snapshot_nodes=free)
        found, self.labels = self.labels, []
        for label in found:
            whole = torch.full_like(result.label, -1)
            whole[free[result.reached[free]]] = label
            self.labels.append(whole)
        return result

    def flow(self, task: LabelTask, start: Start, time_steps: Any, inner_iterations: int) -> FlowResult:
        """As the model, with what the score would decide after every step."""
        seen = _Iterates()
        result = super().flow(replace(task, observers=(*task.observers, seen)), start, time_steps, inner_iterations)
        score = [self.score(u, start, task.multi_label)[task.snapshot_rows] for u in seen.u]
        self.labels = [task.classes[row.argmax(dim=1)] for row in score]
        self.ratios = result.trace["sum_of_ratios"].tolist()
        return result
