"""The rows of ``recipe.py``: CREPE with a part taken out, replaced or scaled.

The package has no flag for most of these. A part is replaced by name while the model runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from fingerprint import code, fingerprint
from recipe_cases import Problem
from table1_methods import CrepeWithoutFlow
from tg_crepe.models.crepe.balance import ClassVolumes
from tg_crepe.models.crepe.diffusion import reweighted_diffusion, trusting
from torch import Tensor

from tg_crepe import LGC, CrepePropagation, EnergyModel, Harmonic, Poisson, PropagationResult
from tg_crepe.energy.constraint import Constraint, IndependentLabels
from tg_crepe.energy.normaliser import get_normaliser
from tg_crepe.graph.cluster_eigenvalue import cluster_eigenvalue
from tg_crepe.graph.spectrum import smallest_eigenpairs
from tg_crepe.inference.rate import screening_rate
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.crepe import model as crepe
from tg_crepe.solvers.ratio_flow import FlowResult, RatioFlow
from tg_crepe.solvers.trace import Trace

#: The clock of the long flow: six steps beyond the default's six, so that the sixth is where the default ends.
LONG_STEPS, GROWTH, TIME = 12, 1.5, 0.4


class AlongTheFlow(CrepePropagation):
    """The first flow of the recipe, six steps longer, with the labels and the sum of ratios of every step."""

    def __init__(self) -> None:
        super().__init__(time=TIME * GROWTH ** (LONG_STEPS - 6))
        self.ratios: list[float] = []
        self.labels: list[Tensor] = []
        self._scores: list[Tensor] = []

    def _solve(self, task: LabelTask) -> Solution:
        iterates: list[Tensor] = []
        decide = crepe._decision

        class Recorder(RatioFlow):
            def _record(self, trace: Trace, step: int, u_half: Tensor, *rest: Any) -> None:
                iterates.append(u_half.clone())  # the decision does not depend on its size
                super()._record(trace, step, u_half, *rest)

        def decide_all(u: Tensor, *rest: Any) -> Tensor:
            self._scores = [decide(iterate, *rest) for iterate in iterates]
            return self._scores[-1]

        parts = {"_STEPS": LONG_STEPS, "RatioFlow": Recorder, "_decision": decide_all, **_ONE_RUN, **_WHOLE_LENGTH}
        with mock.patch.multiple(crepe, **parts):
            solution = super()._solve(task)
        self.ratios = solution.trace["sum_of_ratios"].tolist()
        return solution

    def _spread(self, result: Any, labels: Any, task: Any, solution: Any, nodes: Tensor, columns: Tensor) -> None:
        super()._spread(result, labels, task, solution, nodes, columns)
        for score in self._scores:
            label = torch.full_like(result.label, -1)
            label[nodes] = columns[score.argmax(dim=1)]
            self.labels.append(label)


class OtherExponent(CrepePropagation):
    """x = λ_L p^e, where the recipe has e = ½."""

    def __init__(self, exponent: float) -> None:
        super().__init__()
        self.exponent = exponent

    def _solve(self, task: LabelTask) -> Solution:
        labels = float((task.sign > 0).sum()) / task.num_classes
        rate = screening_rate(task) * labels ** (self.exponent - 0.5)
        with mock.patch.object(crepe, "screening_rate", return_value=rate):
            return super()._solve(task)


class _NoFlow:
    """In the place of the flow: its start, at unit norm."""

    def __init__(self, *options: Any, **more: Any) -> None:
        pass

    def __call__(self, u: Tensor, graph: Any, constraint: Any) -> FlowResult:
        trace = Trace()
        trace.append(step=0)
        return FlowResult(u / u.norm(), u.new_zeros(0), trace, "converged")


def _without_ratio(name: str, volume: Tensor) -> Callable[..., tuple[Tensor, Tensor]]:
    """H whose subgradient is zero: what is left of a step is total variation and the labels (R = 0)."""
    normaliser = get_normaliser(name, volume)

    def value_alone(u: Tensor, degree: Tensor, *communicator: Any) -> tuple[Tensor, Tensor]:
        value, subgradient = normaliser(u, degree, *communicator)
        return value, torch.zeros_like(subgradient)

    return value_alone


def _margins_alone(task: LabelTask, eps: float, outvote: bool) -> Constraint:
    """The margins at labelled nodes, without the coupling of the classes elsewhere."""
    return IndependentLabels(task.sign, eps)


def _keep_volume(find: Callable[[Tensor], Tensor], task: LabelTask, share: Tensor) -> ClassVolumes:
    return ClassVolumes(share)


def _never(*_: Any) -> None:
    return None


def _first_run(task: LabelTask, default: Solution, *_: Any) -> Solution:
    return default


#: One flow from the diffusion, and nothing after it.
_ONE_RUN = {"balanced": _never, "best_restart": _first_run}

#: A flow whose length does not ask for the support of the labels.
_WHOLE_LENGTH = {"_SUPPORT_POWER": 0}


@dataclass(frozen=True)
class _ScaledClock:
    """λ_L times a factor."""

    factor: float

    def __call__(self, graph: Any, index: int, block: Tensor) -> float:
        return self.factor * cluster_eigenvalue(graph, index, block)


def _clock_with_islands(graph: Any, index: int, block: Tensor) -> float:
    """λ_L with the zeros that separate components bring."""
    return max(float(smallest_eigenpairs(graph, index)[0][-1]), 1e-4)


@dataclass(frozen=True)
class _ScaledStart:
    """The diffusion at another screening rate than the clock's: ``factor`` x, or ``rate`` where it is given."""

    factor: float = 1.0
    rate: float = 0.0

    def __call__(self, task: LabelTask, rate: float, *rest: Any, **more: Any) -> Any:
        return reweighted_diffusion(task, self.rate or self.factor * rate, *rest, **more)


def _start_from(task: LabelTask, prob: Tensor, volume: Tensor, reweight: bool) -> Any:
    return prob, trusting(prob, task) if reweight else task.graph, ClassVolumes(volume), "converged"


def _poisson_start(task: LabelTask, rate: float, volume: Tensor, reweight: bool, **_: Any) -> Any:
    """Poisson learning's scores as soft labels, by a softmax at their own spread."""
    score = Poisson()._solve(task).score.double()
    return _start_from(task, torch.softmax(score / score.std(), dim=1), volume, reweight)


def _labels_start(task: LabelTask, rate: float, volume: Tensor, reweight: bool, **_: Any) -> Any:
    """The labels where there are any, the class volumes elsewhere."""
    prob = volume.expand(task.graph.num_nodes, -1).clone()
    prob[task.labelled] = (task.sign[task.labelled] > 0).to(prob)
    return _start_from(task, prob, volume, reweight)


def _scaled_sources(task: LabelTask) -> Tensor:
    """One-hot labels divided by the root of the degree, so that a hub is no stronger source."""
    source = task.sources
    return source / task.graph.degree.to(source).sqrt().unsqueeze(-1)


@dataclass(frozen=True)
class Variant:
    """A model, and what is put in the place of parts of the package while it runs.

    Args:
        options (dict): Arguments of the model; ``class_prior="truth"`` stands for the true shares of the classes.
        parts (dict): Values by their names below ``tg_crepe``. (default: none)
        make (callable): Makes the model. (default: :class:`CrepePropagation`)
    """

    options: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    make: Callable[..., EnergyModel] = CrepePropagation

    def predict(self, problem: Problem) -> tuple[EnergyModel, PropagationResult]:
        """The model and its answer."""
        options = dict(self.options)
        if options.get("class_prior") == "truth":
            options["class_prior"] = problem.truth[problem.truth >= 0].bincount().double()
        with ExitStack() as stack:
            for name, value in self.parts.items():
                stack.enter_context(mock.patch(f"tg_crepe.{name}", value))
            model = self.make(**options)
            return model, model.propagate(problem.y, problem.edge_index, problem.mask, problem.edge_weight)

    @property
    def settings(self) -> str:
        """All that the answer depends on but the problem."""
        parts = {name: _describe(value) for name, value in self.parts.items()}
        here = self.make.__module__ == __name__  # then other changes of this file do not matter
        package = fingerprint("tg_crepe.models.crepe") + ("" if here else fingerprint(self.make.__module__))
        own = code(inspect.getsource(self.make)) if here else ""
        return f"{self.make.__qualname__} {self.options} {parts} {package} {own}"


def _describe(value: Any) -> str:
    """A replacement as text: the code of a function or a class, the value of anything else."""
    if inspect.isfunction(value) or inspect.isclass(value):
        return code(inspect.getsource(value))
    own = code(inspect.getsource(type(value))) if callable(value) else ""
    return f"{value!r} {own}"


_CREPE, _DIFFUSION, _RATE = "models.crepe", "models.diffusion", "models.rate"


def _constant(module: str, name: str, value: Any) -> Variant:
    return Variant(parts={f"{module}.{name}": value})


def _scaled_clock(factor: float) -> Variant:
    """Another factor in x, also beyond its bound."""
    return Variant(parts={f"{_RATE}.cluster_eigenvalue": _ScaledClock(factor), f"{_RATE}._MOST": 1e9})


def _numbered(text: str, values: tuple[float, ...], make: Callable[[Any], Variant]) -> dict[str, Variant]:
    return {text.format(value): make(value) for value in values}


#: Every row by its name; "CREPE" is the whole recipe.
VARIANTS: dict[str, Variant] = {
    "CREPE": Variant(),
    "no flow": Variant(make=CrepeWithoutFlow),
    "no flow, balanced": _constant(_CREPE, "RatioFlow", _NoFlow),
    "start alone": Variant({"reweight": False}, make=CrepeWithoutFlow),
    "no ratio term": _constant(_CREPE, "get_normaliser", _without_ratio),
    "no coupling": _constant(_CREPE, "_constraint", _margins_alone),
    "no re-weighting": Variant({"reweight": False}),
    "no class prior": Variant({"class_prior": "uniform"}),
    "no balance": _constant(_CREPE, "balanced", _never),
    "no observed volume": _constant(_DIFFUSION, "observed_volume", _keep_volume),
    "no restarts of two classes": _constant(_CREPE, "best_restart", _first_run),
    "no support in the length": _constant(_CREPE, "_SUPPORT_POWER", 0),
    "the paper's scheme": Variant(make=CrepePropagation.paper),
    "LGC, α = 0.99": Variant(make=LGC),
    "harmonic": Variant(make=Harmonic),
    "Poisson": Variant(make=Poisson),
    "along the flow": Variant(make=AlongTheFlow),
    "labels may be outvoted": Variant({"outvote": True}),
    "start at x/4": _constant(_CREPE, "reweighted_diffusion", _ScaledStart(0.25)),
    "start at 4x": _constant(_CREPE, "reweighted_diffusion", _ScaledStart(4.0)),
    "start LGC 0.99": _constant(_CREPE, "reweighted_diffusion", _ScaledStart(rate=1 / 99)),
    "start Poisson": _constant(_CREPE, "reweighted_diffusion", _poisson_start),
    "start labels": _constant(_CREPE, "reweighted_diffusion", _labels_start),
    "sources d^-½": _constant(_DIFFUSION, "sources", _scaled_sources),
    "λ_L with islands": _constant(_RATE, "cluster_eigenvalue", _clock_with_islands),
    "true volumes": Variant({"class_prior": "truth"}),
    "exact volumes": Variant({"class_volume": "labels"}),
    **_numbered("exponent {:g}", (0.0, 0.25, 1.0), lambda e: Variant({"exponent": e}, make=OtherExponent)),
    **_numbered("H = {}", ("l1", "l2", "median", "degree_median"), lambda h: Variant({"normaliser": h})),
    **_numbered("ε = {:g}", (0.01, 0.1, 0.3, 3.0, 10.0), lambda eps: Variant({"eps": eps})),
    **_numbered("factor {:g}", (0.25, 0.5, 0.7, 1.5, 2.5), _scaled_clock),
    **_numbered("κ = {:g}", (0.1, 0.2, 0.8, 1.0, 1.6, 2.5), lambda time: Variant({"time": time})),
    **_numbered("pseudo-count {:g}", (0, 1, 20), lambda n: _constant("models.priors", "_PSEUDO_COUNT", n)),
    **_numbered("rounds {:g}", (1, 3, 4), lambda n: _constant(_DIFFUSION, "_ROUNDS", n)),
    **_numbered("power {:g}", (1, 2, 8), lambda n: _constant(_DIFFUSION, "_POWER", n)),
    **_numbered("inner {:g}", (5, 20, 40), lambda n: Variant({"inner_iterations": n})),
    **_numbered(
        "steps {:g}",
        (3, 12, 24),
        lambda n: Variant(parts={f"{_CREPE}._STEPS": n, f"{_CREPE}._GROWTH": GROWTH ** (6 / n)}),
    ),
    **_numbered("balancing {:g}", (1, 2, 6), lambda n: _constant(_CREPE, "_BALANCING", n)),
    **_numbered("balance p = {:g}", (10, 20, 80), lambda n: _constant("models.balance", "_LABELS", n)),
    **_numbered("chance {:g}", (0.1, 0.5), lambda n: _constant("models.balance", "_CHANCE", n)),
    **_numbered("few {:g}", (0, 1, 20), lambda n: _constant("models.balance", "_FEW", n)),
    **_numbered("shrinkage {:g}", (0.5, 1.0, 1.5), lambda n: _constant(_CREPE, "_SHRINKAGE", n)),
    **_numbered("support power {:g}", (1, 2, 8), lambda n: _constant(_CREPE, "_SUPPORT_POWER", n)),
    **_numbered("lazy steps {:g}", (1, 3, 30), lambda n: _constant("models.balance", "_STEPS", n)),
}
