from __future__ import annotations

import math
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from tg_crepe._checks import check_choice, check_homogeneous, read_array
from tg_crepe._waiting import wait_passively
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.prepare import PreparedGraph
from tg_crepe.graph.reading import SYMMETRIZE, canonical_graph
from tg_crepe.inference.evidence import IGNORED, add_evidence, check_prior
from tg_crepe.inference.expected_error import judge
from tg_crepe.inference.labels import Labels, read_labels
from tg_crepe.inference.match_volumes import match_volumes
from tg_crepe.inference.result import PropagationResult, blank_result, keep_labels, set_priors, write_solution
from tg_crepe.inference.soft_labels import SOFT_LABELS, calibrate, certainty, relative_weights
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.trust import weigh_prior
from tg_crepe.inference.volumes import check_volume, resolve_volume
from tg_crepe.solvers.observers import FlowObserver
from tg_crepe.solvers.trace import Trace
from tg_crepe.typing import Adjacency, OptTensor
from tg_crepe.warnings import ConvergenceWarning, GraphWarning

#: The share of the nodes by which a class may miss its volume without a warning.
_MISSED = 0.01


class ModelOptions(TypedDict, total=False):
    """The options that every energy model takes by keyword; :class:`EnergyModel` says what they mean."""

    soft_label: str
    symmetrize: str
    bind_volume: str | Tensor | None
    prior_trust: float | None


class EnergyModel(BaseTransform, ABC):
    r"""The base of every energy model: a transform that turns a few labels and a graph into pseudo-labels.

    A model implements :meth:`_solve` on the part of the graph that labels reach; this class checks the input, makes
    the canonical graph, and turns scores into hard and soft labels. Called with a :class:`~torch_geometric.data.Data`
    it reads :obj:`y`, :obj:`train_mask` and the graph (:obj:`edge_index` with :obj:`edge_weight` or a 1-D
    :obj:`edge_attr`, or :obj:`adj_t`), and if present :obj:`num_classes`, :obj:`u0` and :obj:`snapshot_nodes` of
    :meth:`propagate`, and writes :obj:`pseudo_y`, :obj:`pseudo_prob`, :obj:`certainty` and :obj:`pseudo_mask`, and
    where :obj:`keep_propagation` is set the whole result as :obj:`propagation`. :obj:`y` is read only where the mask is
    :obj:`True`.

    Args:
        soft_label (str, optional): :obj:`"calibrated"` (see :func:`~tg_crepe.inference.soft_labels.calibrate`) or
            :obj:`"relative"`, the paper's rule. With evidence it is the product of both in any case.
            (default: :obj:`"calibrated"`)
        symmetrize (str, optional): How the two directions of an edge are combined, :obj:`"max"`, :obj:`"mean"` or
            :obj:`"mutual"`. (default: :obj:`"max"`)
        bind_volume (str or torch.Tensor, optional): The share of the nodes that each class gets exactly, labelled ones
            included: from the counts of the :obj:`"labels"`, :obj:`"uniform"`, or given, of shape
            :obj:`[num_classes]`; see :func:`~tg_crepe.inference.match_volumes.match_volumes`.
            (default: :obj:`None`, what the scores say)
        prior_trust (float, optional): The exponent of the soft evidence ``prior`` of :meth:`propagate`: 0 (below 0.05)
            ignores it, 1 takes it at its word. (default: :obj:`None`, as far as labels and graph agree with it)
    """

    def __init__(
        self,
        *,
        soft_label: str = "calibrated",
        symmetrize: str = "max",
        bind_volume: str | Tensor | None = None,
        prior_trust: float | None = None,
    ) -> None:
        check_choice("soft_label", soft_label, SOFT_LABELS)
        check_choice("symmetrize", symmetrize, SYMMETRIZE)
        if bind_volume is not None:
            check_volume("bind_volume", bind_volume)
        if prior_trust is not None and not (isinstance(prior_trust, float | int) and 0 <= prior_trust < math.inf):
            raise ValueError(f"'prior_trust' must be a number >= 0, got {prior_trust!r}")
        self.prior_trust = prior_trust
        self.soft_label = soft_label
        self.symmetrize = symmetrize
        self.bind_volume = bind_volume

    #: Whether the model answers for labelled nodes as well, instead of giving their labels back.
    outvote = False

    #: How new points take their value from their neighbours (:func:`~tg_crepe.inference.extension.extend`): the
    #: minimiser of the model's own energy, the median for absolute differences, the mean for squares.
    extension = "mean"

    #: Whether the model can solve on a graph that several processes share.
    distributed = True

    @abstractmethod
    def _solve(self, task: LabelTask) -> Solution:
        """Infers the class functions on the reached subgraph."""

    @torch.no_grad()
    def propagate(
        self,
        y: Tensor | np.ndarray,
        edge_index: Adjacency,
        mask: OptTensor | np.ndarray = None,
        edge_weight: OptTensor | np.ndarray = None,
        num_classes: int | None = None,
        u0: OptTensor | np.ndarray = None,
        num_nodes: int | None = None,
        observers: Sequence[FlowObserver] = (),
        snapshot_nodes: OptTensor | np.ndarray = None,
        prior: OptTensor | np.ndarray = None,
        spread_prior: bool = True,
        start: PropagationResult | None = None,
    ) -> PropagationResult:
        r"""Infers pseudo-labels; the first four arguments are in the order of PyG's
        :class:`~torch_geometric.nn.models.LabelPropagation`.

        NumPy arrays are taken wherever a tensor is. The result holds tensors in any case (on the CPU then), which
        :func:`numpy.asarray` reads without a copy; :meth:`PropagationResult.to_pandas` makes a table of it. No input is
        modified, and the result shares no memory with one.

        Args:
            y (torch.Tensor): Classes, long of shape :obj:`[num_nodes]` or :obj:`[num_nodes, 1]`, or findings
                0/1 of shape :obj:`[num_nodes, num_classes]`, where :obj:`-1` or NaN is unknown.
            edge_index: :obj:`edge_index` of shape :obj:`[2, num_edges]`, a torch, SciPy or torch_sparse matrix, or what
                :func:`~tg_crepe.prepare` makes of either: the same answer, without the work that labels do not change.
            mask (torch.Tensor, optional): Which nodes are labelled: bool of shape :obj:`[num_nodes]`, or indices.
                (default: :obj:`None`, where ``y`` is not negative)
            edge_weight (torch.Tensor, optional): Weights of shape :obj:`[num_edges]`. (default: :obj:`None`, ones)
            num_classes (int, optional): The number of classes. (default: :obj:`None`, the largest labelled one + 1)
            u0 (torch.Tensor, optional): A start for iterative models, of shape :obj:`[num_nodes, num_classes]`.
                (default: :obj:`None`)
            num_nodes (int, optional): The number of nodes; it must be that of ``y``. (default: :obj:`None`)
            observers (sequence, optional): What looks on while the flows of a model run, see
                :class:`~tg_crepe.solvers.FlowObserver`. (default: nobody)
            snapshot_nodes (torch.Tensor, optional): Nodes whose class functions are kept along the flow, as
                ``result.moments``, of shape :obj:`[num_kept]`. (default: :obj:`None`, none)
            prior (torch.Tensor, optional): Soft evidence: what somebody else says of the nodes, such as a zero-shot
                model, as probabilities of shape :obj:`[num_nodes, num_classes]`; a row of NaN is no opinion (of
                findings, any entry). It is trusted as far as labels and graph agree with it
                (:func:`~tg_crepe.inference.trust.weigh_prior`), so at labelled nodes it must not have been made from
                their own labels: out of fold, or NaN. (default: :obj:`None`, nobody)
            spread_prior (bool, optional): Whether the evidence of a node speaks for its neighbours too. Not that of a
                model of the very features that the graph was made of: it errs in whole regions, and its neighbours know
                nothing that it does not. (default: :obj:`True`)
            start (PropagationResult, optional): The answer of the same model on the same prepared graph with a few
                labels fewer (one in 200 at most): CREPE goes on from it, in a quarter of the time and with about the
                same answer. Where it does not fit, and for other models, the call begins anew; ``result.continued``
                says which it was. (default: :obj:`None`)
        """
        labels = read_labels(read_array("y", y), read_array("mask", mask), num_classes, num_nodes)
        if start is not None and not isinstance(start, PropagationResult):
            raise ValueError(f"'start' must be a PropagationResult of an earlier call, got {type(start).__name__}")
        begin = read_array("u0", u0)
        check_start(begin, labels)
        evidence = read_array("prior", prior)
        check_prior(evidence, labels)

        def read_graph() -> tuple[CanonicalGraph, list[str]]:
            edges, weight = read_array("edge_index", edge_index), read_array("edge_weight", edge_weight)
            graph, notes = canonical_graph(edges, weight, labels.num_nodes, self.symmetrize)
            if isinstance(graph, PreparedGraph):
                notes = []  # they were told when it was prepared
            if graph.edge_weight.device != labels.sign.device:
                raise ValueError(
                    f"'y' must be on the device of the graph, {graph.edge_weight.device}, got {labels.sign.device}"
                )
            return graph, notes

        kept = read_array("snapshot_nodes", snapshot_nodes)
        return self.infer(labels, read_graph, begin, observers, kept, evidence, spread_prior, start)

    def forward(self, data: Data) -> Data:
        """Adds the pseudo-labels to ``data``."""
        check_homogeneous(data)
        for name in ("y", "train_mask"):
            if data.get(name) is None:
                raise ValueError(f"'data.{name}' must be a tensor, got None")
        edge_index, edge_weight = _graph_of(data)
        num_nodes = None if data.get("x") is None else data.x.size(0)
        given = {name: data.get(name) for name in ("num_classes", "u0", "snapshot_nodes", "prior")}
        if isinstance(given["num_classes"], Tensor):  # what becomes of a number in a batch
            given["num_classes"] = int(given["num_classes"].max())
        result = self.propagate(data.y, edge_index, data.train_mask, edge_weight, num_nodes=num_nodes, **given)
        data.pseudo_y, data.pseudo_prob = result.label, result.prob
        data.certainty, data.pseudo_mask = result.certainty, result.pseudo_mask
        if data.get("keep_propagation"):
            data.propagation = result
        return data

    def infer(
        self,
        labels: Labels,
        read_graph: Callable[[], tuple[CanonicalGraph, list[str]]],
        u0: OptTensor = None,
        observers: Sequence[FlowObserver] = (),
        snapshot_nodes: OptTensor = None,
        prior: OptTensor = None,
        spread_prior: bool = True,
        start: PropagationResult | None = None,
    ) -> PropagationResult:
        """Solves on the part of a graph that labels reach, and writes the answer for all nodes.

        Args:
            labels (Labels): The labels.
            read_graph (callable): Makes the graph, and one phrase for each repair of it; a callable, so that nobody
                else holds the graph when it is let go.
            u0 (torch.Tensor, optional): See :meth:`propagate`.
            observers (sequence, optional): See :meth:`propagate`.
            snapshot_nodes (torch.Tensor, optional): See :meth:`propagate`.
            prior (torch.Tensor, optional): See :meth:`propagate`.
            spread_prior (bool, optional): See :meth:`propagate`.
            start (PropagationResult, optional): See :meth:`propagate`.
        """
        wait_passively()
        graph, notes = read_graph()
        graph = graph.in_safe_range()
        communicator, dtype = graph.communicator, graph.edge_weight.dtype
        reached = torch.isin(graph.component, communicator.union(graph.component[labels.labelled]))
        inside = reached & (graph.degree > 0)
        usable = labels.usable(inside, communicator)
        notes += _label_notes(labels, int(communicator.sum((~reached).sum())), usable)
        task, trust = None, None
        if bool(usable.any()):
            task, nodes = _restrict_task(graph, labels, inside, usable, u0)
            task = replace(
                task,
                observers=tuple(observers),
                snapshot_rows=_rows_of(nodes, snapshot_nodes),
                previous=None if start is None else start.continuation,
                keep=isinstance(graph, PreparedGraph),
            )
            several = task.num_classes > 1 or task.multi_label
            if prior is not None and several:
                task, trust = self._with_evidence(task, prior[nodes], spread_prior)
            elif prior is not None:
                trust = 0.0
        del graph  # nothing but the task is needed from here on
        if notes and communicator.rank == 0:
            _warn("; ".join(notes), GraphWarning)
        result = None
        if task is not None:
            solution = self._solve_bound(task) if several else _solve_single_class(task)
            if int(communicator.sum((~task.labelled).sum())) == 0:
                solution = replace(solution, judgement=None)  # nothing is expected of nodes that are not there
            elif several and not task.multi_label and self.soft_label == "calibrated" and solution.judgement is None:
                solution = replace(solution, judgement=judge(task, solution.rate))
            # Only now: memory peaks during the solve.
            result = blank_result(labels, reached, dtype)
            write_solution(result, task, solution, self._soft_labels(task, solution), nodes)
            result.prior_trust = None if trust is None else trust * solution.evidence_trust
            if result.prior_trust is not None and self.prior_trust is None and communicator.rank == 0:
                _warn_ignored(result.prior_trust)
            if solution.status != "converged" and communicator.rank == 0:
                _warn(f"{type(self).__name__} ended with status {solution.status!r}", ConvergenceWarning)
        result = result or blank_result(labels, reached, dtype)
        unknown = set_priors(result, labels, usable, communicator) if labels.multi_label else None
        keep_labels(result, labels, ~inside if self.outvote else torch.ones_like(inside))
        result.certainty = certainty(result.prob, labels.multi_label, unknown)
        result.certainty[~reached] = 0
        return result

    def _solve_bound(self, task: LabelTask) -> Solution:
        """Solves, adds evidence where the model has not, and moves the scores to the class volumes where these bind."""
        volume = None if self.bind_volume is None else resolve_volume("bind_volume", self.bind_volume, task)
        solution = self._solve(task)
        if task.evidence is not None and not self._pools_evidence(task):
            calibrated, alone = self.soft_label == "calibrated", replace(task, evidence=None)
            if not task.multi_label and calibrated and solution.judgement is None:
                solution = replace(solution, judgement=judge(task, solution.rate))
            solution = add_evidence(task, solution, self._soft_labels(alone, solution))
            solution = solution if calibrated else replace(solution, judgement=None)
        if volume is None:
            return solution
        score, missed = match_volumes(solution.score, task, volume)
        if missed > _MISSED * task.graph.total_nodes and task.graph.communicator.rank == 0:
            tied = f"a class misses its volume by {missed} of {task.graph.total_nodes} nodes, whose scores are tied"
            _warn(tied, ConvergenceWarning)
        return replace(solution, score=score)

    def _with_evidence(self, task: LabelTask, prior: Tensor, spread: bool) -> tuple[LabelTask, float]:
        """The task with evidence for all classes of the user, of its nodes, and how far it is trusted; without it where
        that is as good as nothing."""
        task = replace(task, spread_evidence=spread)
        # A pool asks the labels itself, how far evidence that stays where it is goes beside its other opinions.
        pooled = self.prior_trust is None and not spread and self._pools_evidence(task)
        evidence, trust, judged = weigh_prior(task, prior, 1.0 if pooled else self.prior_trust)
        if trust < IGNORED:
            return task, 0.0
        held = self.prior_trust is not None or not judged
        return replace(task, evidence=evidence, hold_evidence=held), trust

    def _pools_evidence(self, task: LabelTask) -> bool:
        """Whether the scores of the model hold the evidence of the task already; else the two are multiplied."""
        return False

    def _soft_labels(self, task: LabelTask, solution: Solution) -> Tensor:
        """The probabilities of a solution, by the rule that was chosen."""
        if task.evidence is not None and not task.multi_label:
            return torch.softmax(solution.score.double(), dim=1)  # the logarithm of a product with the evidence
        if self.soft_label == "calibrated":
            return calibrate(task, solution)
        if task.multi_label:
            return relative_weights(solution.score, multi_label=True)
        if self.bind_volume is None:
            return relative_weights(solution.u, multi_label=False)
        # The volumes moved the scores, and a soft label agrees with the hard one.
        return relative_weights(solution.score - solution.score.mean(dim=1, keepdim=True), multi_label=False)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"


def _warn(text: str, category: type[Warning]) -> None:
    """Warns at the line outside of this package and of PyG's transforms that asked for the pseudo-labels."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("tg_crepe.", "torch.", "torch_geometric.")
    ):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, category, stacklevel=depth)


def _warn_ignored(trust: float) -> None:
    """Evidence that has no weight in the end is said to have none."""
    if trust < IGNORED:
        _warn(f"the labels do not support 'prior': it is as good as ignored (trust {trust:.2f})", GraphWarning)


def _restrict_task(
    graph: CanonicalGraph, labels: Labels, inside: Tensor, usable: Tensor, u0: OptTensor
) -> tuple[LabelTask, Tensor]:
    """The task on the nodes ``inside`` for the ``usable`` classes, and the numbers of these nodes."""
    dtype, columns = graph.edge_weight.dtype, usable.nonzero().view(-1)
    part, nodes = graph.compact(inside)
    sign = labels.sign[nodes][:, columns].to(dtype)
    start = None if u0 is None else u0[nodes][:, columns].to(dtype)
    return LabelTask(part, sign, labels.multi_label, columns, labels.num_classes, start), nodes


def _rows_of(nodes: Tensor, wanted: OptTensor) -> OptTensor:
    """The places in ``nodes`` of the wanted ones that are there."""
    if wanted is None:
        return None
    ordered, place = nodes.sort()
    at = torch.searchsorted(ordered, wanted.to(nodes)).clamp(max=nodes.numel() - 1)
    return place[at[ordered[at] == wanted.to(nodes)]]


def _graph_of(data: Data) -> tuple[Adjacency, OptTensor]:
    """The graph of a data object and its weights, in the order in which PyG's own transforms look for them."""
    if data.get("edge_index") is not None:
        weight = data.get("edge_weight")
        attr = data.get("edge_attr")
        if weight is None and attr is not None and (attr.dim() == 1 or (attr.dim() == 2 and attr.size(1) == 1)):
            weight = attr.view(-1)
        return data.edge_index, weight
    if data.get("adj_t") is not None:
        return data.adj_t, None
    raise ValueError("'data' must hold a graph ('edge_index' or 'adj_t'), got neither; FeatureKNNGraph makes one")


def check_start(u0: OptTensor, labels: Labels) -> None:
    """A start must fit the labels and be finite."""
    if u0 is None:
        return
    shape = [labels.num_nodes, labels.num_classes]
    if not isinstance(u0, Tensor) or list(u0.shape) != shape or not bool(torch.isfinite(u0).all()):
        got = f"shape {list(u0.shape)}" if isinstance(u0, Tensor) and list(u0.shape) != shape else "other"
        raise ValueError(f"'u0' must be a finite tensor of shape [num_nodes, num_classes] = {shape}, got {got}")


def _label_notes(labels: Labels, unreached: int, usable: Tensor) -> list[str]:
    """What a user should know of the labels and where they reach, one phrase each."""
    notes = []
    if unreached:
        notes.append(f"{unreached} node(s) lie in components without a label and get no pseudo-label (-1)")
    absent = (~usable).nonzero().view(-1).tolist()
    if absent and labels.multi_label:
        notes.append(f"finding(s) {absent} have no known positive or no known negative and keep their prior")
    elif absent:
        notes.append(f"class(es) {absent} have no labelled node with an edge and are never predicted")
    return notes


def _solve_single_class(task: LabelTask) -> Solution:
    """One class alone has nothing to be weighed against: every reached node gets it."""
    ones = torch.ones_like(task.sign)
    return Solution(ones, ones, Trace(), "converged")


def model_repr(model: Any, **options: Any) -> str:
    """``Name(option=value, …)`` for a model's ``repr``."""
    inside = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"{model.__class__.__name__}({inside})"
