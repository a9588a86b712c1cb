from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from tg_crepe._checks import check_choice, check_count, check_positive
from tg_crepe.energy.constraint import Constraint, Coupling, IndependentLabels, LabelCoupling
from tg_crepe.energy.normaliser import NORMALISERS, along_degree, get_normaliser
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.rate import screening_rate
from tg_crepe.inference.support import label_support
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.volumes import check_class_prior, class_volume
from tg_crepe.models.base import EnergyModel, model_repr
from tg_crepe.models.crepe.balance import balanced, softened
from tg_crepe.models.crepe.diffusion import centre, reweighted_diffusion, trusting
from tg_crepe.models.crepe.restarts import best_restart, geometric_clock
from tg_crepe.models.poisson import Poisson
from tg_crepe.solvers.backends import BACKENDS
from tg_crepe.solvers.ratio_flow import RatioFlow
from tg_crepe.typing import OptTensor

#: The steps of the clock and the factor between their ends (docs/recipe.md).
_STEPS, _GROWTH = 6, 1.5

#: The flow's length falls with this power of the support that labels have, down to this share.
_SUPPORT_POWER, _LEAST_TIME = 4, 0.01

#: What the scores count beside the class volumes: what is found on a graph is less sure than it looks.
_SHRINKAGE = 0.75

#: Runs of the flow from balanced labels, at the most.
_BALANCING = 3

#: A flow with a constant step ends when no label has changed for this many steps.
_PATIENCE = 5


@functional_transform("crepe_propagation")
class CrepePropagation(EnergyModel):
    r"""Pseudo-labels by the ratio flow of the normalised 1-Laplacian, from the `"Energy Models for Better
    Pseudo-Labels: Improving Semi-Supervised Classification with the 1-Laplacian Graph Energy"
    <https://arxiv.org/abs/1906.08635>`_ paper (functional name: :obj:`crepe_propagation`).

    .. math::
        \min_{\|\mathbf{u}\|_2 = 1} \sum_{l=1}^{L} \frac{J(u^l)}{H(u^l)} \quad \text{s.t. } \mathbf{u} \in C, \qquad
        J(u) = \|W D^{-1} u\|_1,

    where :math:`C` couples the classes at unlabelled nodes (:math:`\sum_l u^l = 0`) and keeps a margin
    :math:`\epsilon` at labelled ones. The defaults follow one clock, the screening rate
    :math:`x = \lambda_L \sqrt{p}`, with :math:`\lambda_L` the :math:`L`-th smallest eigenvalue of
    :math:`I - D^{-1/2} W D^{-1/2}` and :math:`p` the mean number of labels a class: it sets the diffusion from which
    the flow starts, and its length, which is shorter where labels find little support around them
    (:func:`~tg_crepe.inference.support.label_support`). The label is :math:`\arg\max_l (\frac{3}{4} v^l + \pi_l)`,
    where :math:`v = u/d` at the spread of the start, without its mean over the nodes, and :math:`\pi` are the class
    volumes. Where labels are few and equally many, classes whose volumes have run away from
    :math:`\pi` are brought back to it and the flow runs again (:func:`~tg_crepe.models.crepe.balance.balanced`).

    .. code-block:: python

        import torch_geometric.transforms as T
        from tg_crepe import CrepePropagation, FeatureKNNGraph

        data = T.Compose([FeatureKNNGraph(k=20), CrepePropagation()])(data)
        data.pseudo_y, data.pseudo_prob, data.certainty, data.pseudo_mask

    Args:
        normaliser (str, optional): :math:`H`: :obj:`"degree_quantile"`, :obj:`"l1"`, :obj:`"l2"`, :obj:`"median"` or
            :obj:`"degree_median"`. (default: :obj:`"degree_quantile"`, balanced at the class volumes)
        class_prior (str or torch.Tensor, optional): The class volumes: from the :obj:`"labels"` (their counts, and
            what the diffusion finds where it contradicts them; few labels, equally many, bind the volumes),
            given, of shape :obj:`[num_classes]`, or :obj:`"uniform"`: equal, and the label is the paper's
            :math:`\arg\max_l u^l`. The latter two are taken as they are and bind nothing. (default: :obj:`"labels"`)
        reweight (bool, optional): Whether edges are re-weighted by the soft labels of the start, twice; not part of
            the paper's model. (default: :obj:`True`)
        time (float, optional): The length of the flow in units of :math:`1/x`, where labels are supported in full.
            (default: :obj:`0.4`)
        time_step (float, optional): A constant step :math:`\delta t` in units of the mean of :math:`|\mathbf{u}|`,
            taken until the flow converges, instead of the clock. (default: :obj:`None`)
        eps (float, optional): The margin :math:`\epsilon` at labelled nodes in units of the mean of
            :math:`|\mathbf{u}|`. (default: :obj:`1.0`)
        max_steps (int, optional): The largest number of steps of a constant ``time_step``. (default: :obj:`100`)
        inner_iterations (int, optional): Primal–dual iterations of a step before it is tested; more of them hardly
            change an error (``benchmarks/results/core_inner.md``). (default: :obj:`10`)
        outvote (bool, optional): Whether labelled nodes may get another class than their label, where their neighbours
            outvote it: their margin :math:`\epsilon` is dropped, and labels that find little support around them are
            weaker sources. For labels some of which are wrong; with right ones it costs accuracy.
            (default: :obj:`False`)
        soft_label (str, optional): See :class:`EnergyModel`. (default: :obj:`"calibrated"`)
        symmetrize (str, optional): See :class:`EnergyModel`. (default: :obj:`"max"`)
        backend (str, optional): What carries out the iterations of the flow: :obj:`"numba"` (the quickest, CPU),
            :obj:`"torch"` (any device), :obj:`"reference"`, or :obj:`"auto"`: numba where it is installed and the
            graph is on the CPU, else torch. (default: :obj:`"auto"`)
        class_volume (str or torch.Tensor, optional): See :class:`EnergyModel`; unlike ``class_prior`` it fixes how
            many nodes every class gets. (default: :obj:`None`)
    """

    extension = "median"

    def __init__(
        self,
        normaliser: str = "degree_quantile",
        class_prior: str | Tensor = "labels",
        reweight: bool = True,
        time: float = 0.4,
        time_step: float | None = None,
        eps: float = 1.0,
        max_steps: int = 100,
        inner_iterations: int = 10,
        outvote: bool = False,
        soft_label: str = "calibrated",
        symmetrize: str = "max",
        backend: str = "auto",
        class_volume: str | Tensor | None = None,
    ) -> None:
        super().__init__(soft_label, symmetrize, class_volume)
        check_choice("normaliser", normaliser, NORMALISERS)
        check_class_prior(class_prior)
        check_positive("time", time)
        if time_step is not None:
            check_positive("time_step", time_step)
        check_positive("eps", eps)
        check_count("max_steps", max_steps, low=0)
        check_count("inner_iterations", inner_iterations)
        check_choice("backend", backend, BACKENDS)
        self.normaliser = normaliser
        self.class_prior = class_prior
        self.reweight = reweight
        self.time = time
        self.time_step = time_step
        self.eps = eps
        self.max_steps = max_steps
        self.inner_iterations = inner_iterations
        self.outvote = outvote
        self.backend = backend

    @classmethod
    def paper(
        cls, normaliser: str = "l1", time_step: float = 1.0, eps: float = 0.01, **options: object
    ) -> CrepePropagation:
        r"""The paper's scheme: :math:`\arg\max_l u^l`, its relative soft labels, no class prior and no re-weighting.

        The paper gives neither :math:`H`, :math:`\epsilon`, :math:`\delta t` nor :math:`\mathbf{u}_0`. Here
        :math:`H` is the :math:`\ell_1` norm, :math:`\epsilon` a hundredth and :math:`\delta t` once the mean of
        :math:`|\mathbf{u}|`, and :math:`\mathbf{u}_0` the diffusion with equal class masses.

        Args:
            normaliser (str, optional): :math:`H`. (default: :obj:`"l1"`)
            time_step (float, optional): :math:`\delta t`. (default: :obj:`1.0`)
            eps (float, optional): :math:`\epsilon`. (default: :obj:`0.01`)
            **options: Other arguments of :class:`CrepePropagation`.
        """
        fixed = {"class_prior": "uniform", "reweight": False, "soft_label": "relative"}
        return cls(normaliser=normaliser, time_step=time_step, eps=eps, **{**fixed, **options})  # type: ignore[arg-type]

    def _solve(self, task: LabelTask) -> Solution:
        volume = class_volume(task, self.class_prior)
        rate = screening_rate(task)
        plain, from_labels = self._prior == "uniform", self._prior == "labels" and not task.multi_label
        prob, graph, volumes, status = reweighted_diffusion(
            task, rate, volume, self.reweight, observe=from_labels, outvote=self.outvote
        )
        volume = volumes.share
        time = self.time if task.multi_label else self.time * _supported_time(prob, task)
        clock = self._clock(rate, time)
        start, spread = self._start(prob, graph, task)
        del prob  # in double precision; what follows needs the most memory

        def run(
            u: Tensor, on: CanonicalGraph, clock: float | list[float], inner_iterations: int, spread: Tensor = spread
        ) -> Solution:
            flow = RatioFlow(
                get_normaliser(self.normaliser, volume),
                clock,
                self.eps,
                max_steps=self.max_steps,
                patience=_PATIENCE,
                inner_iterations=inner_iterations,
                backend=self.backend,
            )
            result = flow(u, on, _constraint(task, self.eps, self.outvote))
            result.dual = result.dual.new_zeros(0)  # the largest array of all, and no longer needed
            score = _decision(result.u, on, spread, None if plain else volume, task.multi_label)
            ended = result.status if status == "converged" else status
            return Solution(result.u, score, result.trace, ended, rate)

        if task.u0 is not None:
            start = _feasible_start(task.u0, graph, task.multi_label)
            return run(start, graph, clock, self.inner_iterations)
        solution = run(start, graph, clock, self.inner_iterations)
        if self.time_step is not None or task.multi_label:
            return solution
        if task.positive_count.tolist() == [1, 1]:
            return best_restart(task, solution, run, start, graph, rate, volume, time)
        label = balanced(solution.score, task, volumes) if from_labels else None
        if label is not None and float(task.positive_count.sum()) < 2 * task.num_classes:
            # One label a class has no reach of its own: that of Poisson learning is without bound.
            label = balanced(Poisson()._solve(task).score, task, volumes)
        for _ in range(_BALANCING):  # classes have lost their balance: once more, from labels that have it
            if label is None:
                break
            prob = softened(label, task.graph, task.num_classes)
            graph = trusting(prob, task) if self.reweight else task.graph
            start, spread = self._start(prob, graph, task)
            solution = run(start, graph, clock, self.inner_iterations, spread)
            label = balanced(solution.score, task, volumes)
        return solution

    def _start(self, prob: Tensor, graph: CanonicalGraph, task: LabelTask) -> tuple[Tensor, Tensor]:
        """The class functions of soft labels, and their spread."""
        u = centre(prob, graph, task.multi_label)
        return u.to(task.sign.dtype), _spread(u, graph)

    def _clock(self, rate: float, time: float) -> float | list[float]:
        """The constant step, or the steps of the clock."""
        return self.time_step if self.time_step is not None else geometric_clock(time / rate, _STEPS, _GROWTH)

    @property
    def _prior(self) -> str:
        """The name of the class prior, or that it is given."""
        return self.class_prior if isinstance(self.class_prior, str) else "given"

    def __repr__(self) -> str:
        return model_repr(self, normaliser=self.normaliser, class_prior=self._prior, reweight=self.reweight)


def _constraint(task: LabelTask, eps: float, outvote: bool) -> Constraint:
    """The set C of the task, without its margins where labels may be outvoted."""
    if outvote:
        return Constraint() if task.multi_label else Coupling()
    return IndependentLabels(task.sign, eps) if task.multi_label else LabelCoupling(task.y, eps)


def _supported_time(prob: Tensor, task: LabelTask) -> float:
    """The share of its length that the flow has, by how well the labels are supported around them."""
    return max(label_support(prob, task) ** _SUPPORT_POWER, _LEAST_TIME)


def _feasible_start(u0: Tensor, graph: CanonicalGraph, multi_label: bool) -> Tensor:
    """A user's start with zero sum over classes and no part along the degree."""
    u = u0.double() if multi_label else u0.double() - u0.double().mean(dim=1, keepdim=True)
    over = graph.communicator
    u = u - along_degree(u, graph.degree.double(), over)
    if not float(over.max(u.norm())) > 0:
        raise ValueError("'u0' must differ from node to node and class to class, got a constant start")
    return u.to(u0.dtype)


def _decision(u: Tensor, graph: CanonicalGraph, spread: Tensor, volume: OptTensor, multi_label: bool) -> Tensor:
    r"""The scores :math:`\frac{3}{4} (v - \bar v) + \pi`, with :math:`v = u/d` at the spread that the start had.

    Every :math:`u^l` has :math:`\langle u^l, d \rangle = 0`: the mean of :math:`v^l` is zero where a node counts
    :math:`d^2`, and that of the nodes, :math:`\bar v^l`, is not where there are hubs. What is added back, the class
    volumes :math:`\pi`, are shares of the nodes, so it is :math:`\bar v` that they take the place of. A finding's score
    is :math:`v - \bar v + \pi - \frac{1}{2}`. Without volumes :math:`v` decides as it is: the paper's argmax u.
    """
    now, over = _spread(u, graph), graph.communicator
    scale = torch.where(now > 0, spread / torch.where(now > 0, now, 1.0), 0.0)
    v = (u.double() / graph.degree.double().unsqueeze(-1)).mul_(scale)
    if volume is None:
        return v
    v -= over.sum(v.sum(dim=0)) / graph.total_nodes
    return v + volume - 0.5 if multi_label else _SHRINKAGE * v + volume


def _spread(u: Tensor, graph: CanonicalGraph) -> Tensor:
    """The root of the degree-weighted mean square of v = u/d."""
    degree, over = graph.degree.double(), graph.communicator
    square = u.double().square().sum(dim=1)
    return (over.sum((square / degree).sum()) / over.sum(degree.sum())).sqrt()
