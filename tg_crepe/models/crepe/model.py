from __future__ import annotations

from dataclasses import replace
from functools import partial

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform
from typing_extensions import Unpack

from tg_crepe._checks import check_choice
from tg_crepe.energy.constraint import Constraint, Coupling, IndependentLabels, LabelCoupling
from tg_crepe.energy.normaliser import Normaliser, get_normaliser
from tg_crepe.inference.evidence import evidence_push
from tg_crepe.inference.expected_error import class_error
from tg_crepe.inference.held_out import HeldOut, deal_labels, leave_out
from tg_crepe.inference.rate import RATE_FACTORS, bounded_rate, raised_by, screening_rate, weigh_rates
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.volumes import check_volume, found_volume, normalise_masses, resolve_volume
from tg_crepe.models.base import EnergyModel, ModelOptions, model_repr
from tg_crepe.models.crepe.continuation import Continuation, LastStep
from tg_crepe.models.crepe.decide import decide
from tg_crepe.models.crepe.pooling import PoolTrust, pool_opinions
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.refine import rebalance, wanted_volume
from tg_crepe.models.crepe.start import Start, diffused_start, feasible_start
from tg_crepe.models.crepe.volumes import SAMPLINGS, VolumePosterior, estimate_volume, random_sample
from tg_crepe.solvers.backends import BACKENDS
from tg_crepe.solvers.observers import Snapshots, find_checkpoint
from tg_crepe.solvers.ratio_flow import FlowResult, RatioFlow, geometric_steps
from tg_crepe.typing import OptTensor

#: The residual of starts that judge labels which are left out.
_LOOSE = 1e-2


@functional_transform("crepe_propagation")
class CrepePropagation(EnergyModel):
    r"""Pseudo-labels by the ratio flow of the normalised 1-Laplacian, from the `"Energy Models for Better
    Pseudo-Labels: Improving Semi-Supervised Classification with the 1-Laplacian Graph Energy"
    <https://arxiv.org/abs/1906.08635>`_ paper (functional name: :obj:`crepe_propagation`).

    .. math::
        \min_{\|\mathbf{u}\|_2 = 1} \sum_{l=1}^{L} \frac{J(u^l)}{H(u^l)} \quad \text{s.t. } \mathbf{u} \in C, \qquad
        J(u) = \|W D^{-1} u\|_1,

    where :math:`C` couples the classes at unlabelled nodes (:math:`\sum_l u^l = 0`) and keeps a margin
    :math:`\epsilon` at labelled ones. One rate sets the scale: :math:`x = \lambda_L \sqrt{p}`, with :math:`\lambda_L`
    the :math:`L`-th smallest eigenvalue of :math:`I - D^{-1/2} W D^{-1/2}` and :math:`p` the mean number of labels per
    class (:func:`~tg_crepe.inference.rate.screening_rate`), corrected by labels that are left out
    (:func:`~tg_crepe.inference.rate.weigh_rates`). It sets the diffusion from which the flow starts, and its length.
    Classes whose volumes are not what labels and graph say are brought back and the flow runs again
    (:func:`~tg_crepe.models.crepe.refine.rebalance`). Its scores (:func:`~tg_crepe.models.crepe.decide.decide`) and the
    labels near by are pooled as far as labels that are left out trust each
    (:func:`~tg_crepe.models.crepe.pooling.pool_opinions`); the label is the most probable one.

    .. code-block:: python

        import torch_geometric.transforms as T
        from tg_crepe import CrepePropagation, FeatureKNNGraph

        data = T.Compose([FeatureKNNGraph(k=20), CrepePropagation()])(data)
        data.pseudo_y, data.pseudo_prob, data.certainty, data.pseudo_mask

    The stages of a solve are methods, which a subclass may replace: :meth:`rate`, :meth:`raised`, :meth:`start`,
    :meth:`volume`, :meth:`time_steps`, :meth:`normaliser`, :meth:`constraint`, :meth:`flow`, :meth:`score` and
    :meth:`pool`. A start ``u0`` given to :meth:`propagate` takes the place of the diffusion's class functions; one flow
    runs from it, and nothing is refined after it.

    Args:
        recipe (Recipe, optional): The constants. (default: :obj:`None`, :class:`Recipe()`)
        class_volume (str or torch.Tensor, optional): The share of the nodes that each class is expected to have: from
            the :obj:`"labels"` (an estimate from their counts and from the graph, which binds as tightly as it is
            sure, see :mod:`tg_crepe.models.crepe.volumes`), given, of shape :obj:`[num_classes]`, which binds, or
            :obj:`"uniform"`: equal, it binds nothing, and the flow decides by the paper's :math:`\arg\max_l u^l`.
            (default: :obj:`"labels"`)
        sampling (str, optional): How the labels came about: :obj:`"random"`, drawn at random from all nodes, so that
            their counts tell the class volumes; :obj:`"chosen"`, by somebody or by an algorithm such as
            :func:`~tg_crepe.active.label_next`, so that they tell nothing; or :obj:`"auto"`: equal counts were chosen,
            others are asked for on the graph (:func:`~tg_crepe.models.crepe.volumes.random_sample`).
            (default: :obj:`"auto"`)
        outvote (bool, optional): Whether labelled nodes may get another class than their label, where their neighbours
            outvote it: their margin :math:`\epsilon` is dropped, and labels that find little support around them are
            weaker sources. For labels some of which are wrong; with right ones it costs accuracy.
            (default: :obj:`False`)
        backend (str, optional): What carries out the iterations of the flow: :obj:`"numba"` (the quickest, CPU),
            :obj:`"torch"` (any device), :obj:`"reference"`, or :obj:`"auto"`: numba where it is installed and the
            graph is on the CPU, else torch. (default: :obj:`"auto"`)
        **options: Those of :class:`EnergyModel`.
    """

    extension = "median"

    def __init__(
        self,
        recipe: Recipe | None = None,
        *,
        class_volume: str | Tensor = "labels",
        sampling: str = "auto",
        outvote: bool = False,
        backend: str = "auto",
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(**options)
        if recipe is not None and not isinstance(recipe, Recipe):
            raise ValueError(f"'recipe' must be a tg_crepe.Recipe, got {recipe!r}")
        check_volume("class_volume", class_volume)
        check_choice("sampling", sampling, SAMPLINGS)
        check_choice("backend", backend, BACKENDS)
        self.recipe = recipe or Recipe()
        self.class_volume = class_volume
        self.sampling = sampling
        self.outvote = outvote
        self.backend = backend

    @classmethod
    def paper(cls, recipe: Recipe | None = None, **options: object) -> CrepePropagation:
        r"""The paper's scheme: :meth:`Recipe.paper`, :math:`\arg\max_l u^l` and its relative soft labels.

        Args:
            recipe (Recipe, optional): Another one than :meth:`Recipe.paper`. (default: :obj:`None`)
            **options: Other arguments of :class:`CrepePropagation`.
        """
        options = {"class_volume": "uniform", "soft_label": "relative", **options}
        return cls(recipe or Recipe.paper(), **options)  # type: ignore[arg-type]

    def _solve(self, task: LabelTask) -> Solution:
        if isinstance(task.previous, Continuation) and task.previous.fits(task, self._settings):
            continued = self._go_on(task, task.previous)
            if continued is not None:
                return continued
        clock = self.rate(task)
        rate, part, held = bounded_rate(clock, self.recipe.largest_rate), None, None
        if not self._plain(task):
            part = deal_labels(task, RATE_FACTORS[-1] * rate)
        if part is not None:
            held = leave_out(task, [factor * rate for factor in RATE_FACTORS], part)
            weight = weigh_rates(held)
            held, factor = held.mixed(weight), self.raised(weight)
            rate, clock = rate * factor, clock * factor
        diffused, continues = self.start(task, rate, held), self._leaves_continuation(task)
        start = diffused = diffused if continues else replace(diffused, diffused=None)
        if task.u0 is not None:
            start = replace(start, u=feasible_start(task.u0, start.graph, task.multi_label))
        run = partial(self._run, task, clock)
        if self._plain(task):
            return run(start)
        # Only a call that goes on from this one would use the matrices of the re-weighted graph again.
        forget = start.graph.forget_matrices if start.graph is not task.graph and not task.keep else None
        if forget is not None:
            forget()
        last = LastStep(self.recipe.steps) if continues else None
        flow = self._run(task if last is None else replace(task, observers=(*task.observers, last)), clock, start)
        solution = flow
        if task.u0 is None and self._volume_name != "uniform":
            solution = rebalance(task, solution, run, start, self.recipe)
        if forget is not None:
            forget()
        pooled = self.pool(task, solution, diffused, rate, part)
        if last is None or last.u is None or last.dual is None or solution is not flow:
            return pooled
        known = replace(task, previous=None)
        trust = None if pooled.judgement is None else pooled.judgement.trust
        kept = Continuation(self._settings, known, start, clock, rate, trust, last.u, last.dual)
        return replace(pooled, continuation=kept)

    def _leaves_continuation(self, task: LabelTask) -> bool:
        """Whether a call with a few more labels may go on from this one."""
        return task.keep and task.u0 is None and task.evidence is None and not self.outvote

    def _go_on(self, task: LabelTask, previous: Continuation) -> Solution | None:
        """The last step of the flow from where it was before, moved by what the new labels change in the start; nothing
        where the class volumes are out of their bounds then."""
        recipe = self.recipe
        start, u = previous.begin(task, recipe.start_tol, 1 / (1 + recipe.start_factor * previous.rate))
        steps = self.time_steps(previous.clock)
        assert isinstance(steps, list)  # of a flow of known length
        result = self.flow(task, replace(start, u=u), steps[-1:], previous.dual)
        score, rate = self.score(result.u, start, multi_label=False), bounded_rate(previous.clock, recipe.largest_rate)
        status = result.status if start.status == "converged" else start.status
        solution = Solution(result.u, score, result.trace, status, rate)
        if self._volume_name != "uniform" and wanted_volume(score, task, start.volume) is not None:
            return None
        pooled = self.pool(task, solution, start, previous.rate, None, previous.trust)
        return replace(pooled, continuation=previous, continued=True)

    @property
    def _settings(self) -> str:
        """All settings of the model, to be compared: of tensors all digits."""
        plain = {name: value.tolist() if isinstance(value, Tensor) else value for name, value in vars(self).items()}
        return repr(sorted((name, repr(value)) for name, value in plain.items()))

    def _pools_evidence(self, task: LabelTask) -> bool:
        return not self._plain(task)

    def _plain(self, task: LabelTask) -> bool:
        """Whether one flow is all: for findings, and in the paper's scheme."""
        return task.multi_label or self.recipe.has_constant_steps

    def _run(self, task: LabelTask, clock: float, start: Start) -> Solution:
        """One flow and its scores."""
        snapshots = None if task.snapshot_rows is None else Snapshots(task.snapshot_rows)
        task = replace(task, observers=task.observers if snapshots is None else (*task.observers, snapshots))
        result = self.flow(task, start, self.time_steps(clock))
        score = self.score(result.u, start, task.multi_label)
        status = result.status if start.status == "converged" else start.status
        return Solution(result.u, score, result.trace, status, bounded_rate(clock, self.recipe.largest_rate), snapshots)

    def rate(self, task: LabelTask) -> float:
        """The screening rate that sets the scale of everything, before labels are left out."""
        return screening_rate(task, self.recipe.rate_factor)

    def raised(self, weight: Tensor) -> float:
        """What the rate is multiplied by, from the weights of the rates that labels were left out at."""
        return raised_by(weight)

    def start(self, task: LabelTask, rate: float, held: HeldOut | None) -> Start:
        """Where the first flow begins, and the posterior of the class volumes."""
        return diffused_start(task, self.recipe, rate, partial(self.volume, task, held), self.outvote)

    def volume(self, task: LabelTask, held: HeldOut | None, x: Tensor) -> VolumePosterior:
        """The class volumes, from the counts of the labels and from the sources ``x`` as they are diffused: evidence
        has no word in it, since one that never names a class would remove it."""
        recipe = self.recipe
        if self._volume_name != "labels" or self._plain(task):
            return VolumePosterior.given(resolve_volume("class_volume", self.class_volume, task, recipe.pseudo_count))

        def found(masses: Tensor) -> Tensor:
            return found_volume(normalise_masses(x, task, task.graph, masses), task)

        random = random_sample(task, held, self.sampling)
        return estimate_volume(task, random, found, class_error(held, task.num_classes), recipe)

    def time_steps(self, clock: float) -> float | list[float]:
        """One constant step, or a schedule that adds up to the length of the flow."""
        recipe = self.recipe
        if recipe.time_step is not None:
            return recipe.time_step
        return geometric_steps(recipe.time / clock, recipe.steps, recipe.growth)

    def flow(
        self, task: LabelTask, start: Start, time_steps: float | list[float], dual: OptTensor = None
    ) -> FlowResult:
        """The ratio flow from a start."""
        flow = RatioFlow(
            self.normaliser(start),
            time_steps,
            self.recipe.eps,
            max_steps=self.recipe.max_steps,
            patience=self.recipe.patience,
            inner_iterations=self.recipe.inner_iterations,
            backend=self.backend,
            short_dual=not self._plain(task),
        )
        resume = find_checkpoint(task.observers, start.graph)
        push = None if task.spread is None else evidence_push(task, start.graph)
        result = flow(start.u, start.graph, self.constraint(task), dual, task.observers, resume, push)
        result.dual = result.dual.new_zeros(0)  # the largest array of all, and no longer needed
        return result

    def normaliser(self, start: Start) -> Normaliser:
        """H, at the class volumes of the start."""
        return get_normaliser(self.recipe.normaliser, start.volume.share)

    def constraint(self, task: LabelTask) -> Constraint:
        """The set C of the task, without its margins where labels may be outvoted."""
        if self.outvote:
            return Constraint() if task.multi_label else Coupling()
        eps = self.recipe.eps
        return IndependentLabels(task.sign, eps) if task.multi_label else LabelCoupling(task.y, eps)

    def score(self, u: Tensor, start: Start, multi_label: bool) -> Tensor:
        """What decides at the end of a flow, of the shape of ``u``."""
        volume = None if self._volume_name == "uniform" else start.volume.share
        return decide(u, start.graph, start.size, volume, multi_label, self.recipe.shrinkage)

    def pool(
        self,
        task: LabelTask,
        solution: Solution,
        start: Start,
        rate: float,
        part: OptTensor,
        trusted: PoolTrust | None = None,
    ) -> Solution:
        """The flow and the labels near by as one opinion, as far as labels that are left out trust each, or have
        trusted them in an earlier call."""
        loose = replace(self.recipe, start_tol=_LOOSE)

        if task.spread is not None:
            part = deal_labels(task, rate, with_single=True)  # evidence around speaks for the class of a single label

        def score_without(rest: LabelTask) -> Tensor:
            # Scale and volumes are those of all labels: what is judged is the start, not how it was set up.
            other = diffused_start(rest, loose, rate, lambda _: start.volume, self.outvote)
            return self.score(other.u, other, multi_label=False)

        return pool_opinions(
            task,
            solution,
            start,
            self.score(start.u, start, multi_label=False),
            part,
            score_without,
            self.recipe.pool_prior,
            start.volume.share if self._volume_name == "given" else None,
            self.outvote,
            trusted,
        )

    @property
    def _volume_name(self) -> str:
        """The name of the class volumes, :obj:`"given"` for a tensor."""
        return self.class_volume if isinstance(self.class_volume, str) else "given"

    def __repr__(self) -> str:
        return model_repr(self, recipe=self.recipe, class_volume=self._volume_name)
