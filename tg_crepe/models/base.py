from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from tg_crepe._checks import check_choice
from tg_crepe.graph.canonical import SYMMETRIZE, CanonicalGraph, canonical_graph
from tg_crepe.graph.communicator import Communicator
from tg_crepe.graph.locality import local_order
from tg_crepe.inference.labels import Labels, read_labels
from tg_crepe.inference.soft_labels import SOFT_LABELS, calibrated, certainty, relative_weights
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.inference.volumes import check_class_prior, class_volume, match_volumes
from tg_crepe.solvers.trace import Status, Trace
from tg_crepe.typing import Adjacency, OptTensor
from tg_crepe.warnings import ConvergenceWarning, GraphWarning

#: The share of the nodes by which a class may miss its volume without a warning.
_MISSED = 0.01


@dataclass
class PropagationResult:
    r"""The pseudo-labels of every node, on the device of the input.

    Args:
        u (torch.Tensor): The class functions, of shape :obj:`[num_nodes, num_classes]`; 0 where nothing was solved.
        label (torch.Tensor): The hard label, of shape :obj:`[num_nodes]`, :obj:`-1` where no label reaches; for
            multi-label data 0/1 of shape :obj:`[num_nodes, num_classes]`.
        prob (torch.Tensor): The soft label, of shape :obj:`[num_nodes, num_classes]`.
        certainty (torch.Tensor): One minus its relative entropy, of shape :obj:`[num_nodes]`.
        reached (torch.Tensor): Whether the component of the node holds a label, bool of shape :obj:`[num_nodes]`.
        pseudo_mask (torch.Tensor): Reached and not labelled, bool of shape :obj:`[num_nodes]`.
        trace (Trace): One row a step of the solver.
        status (str): :obj:`"converged"`, :obj:`"step_limit"` or :obj:`"stalled"`.
    """

    u: Tensor
    label: Tensor
    prob: Tensor
    certainty: Tensor
    reached: Tensor
    pseudo_mask: Tensor
    trace: Trace
    status: Status


class EnergyModel(BaseTransform, ABC):
    r"""The base of every energy model: a transform that turns a few labels and a graph into pseudo-labels.

    A model implements :meth:`_solve` on the part of the graph that labels reach; this class checks the input, makes
    the canonical graph, and turns scores into hard and soft labels. Called with a :class:`~torch_geometric.data.Data`
    it reads :obj:`y`, :obj:`train_mask` and the graph (:obj:`edge_index` with :obj:`edge_weight` or a 1-D
    :obj:`edge_attr`, or :obj:`adj_t`) and writes :obj:`pseudo_y`, :obj:`pseudo_prob`, :obj:`certainty` and
    :obj:`pseudo_mask`. :obj:`y` is read only where the mask is :obj:`True`.

    Args:
        soft_label (str, optional): :obj:`"calibrated"` (see :func:`~tg_crepe.inference.soft_labels.calibrated`) or
            :obj:`"relative"`, the paper's rule. (default: :obj:`"calibrated"`)
        symmetrize (str, optional): How the two directions of an edge are combined, :obj:`"max"`, :obj:`"mean"` or
            :obj:`"mutual"`. (default: :obj:`"max"`)
        class_volume (str or torch.Tensor, optional): The share of the nodes that every class is to have, labelled ones
            included: from the counts of the :obj:`"labels"`, :obj:`"uniform"`, or given, of shape
            :obj:`[num_classes]`; see :func:`~tg_crepe.inference.volumes.match_volumes`.
            (default: :obj:`None`, what the scores say)
    """

    def __init__(
        self, soft_label: str = "calibrated", symmetrize: str = "max", class_volume: str | Tensor | None = None
    ) -> None:
        check_choice("soft_label", soft_label, SOFT_LABELS)
        check_choice("symmetrize", symmetrize, SYMMETRIZE)
        if class_volume is not None:
            check_class_prior(class_volume, "class_volume")
        self.soft_label = soft_label
        self.symmetrize = symmetrize
        self.class_volume = class_volume

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
        y: Tensor,
        edge_index: Adjacency,
        mask: OptTensor = None,
        edge_weight: OptTensor = None,
        num_classes: int | None = None,
        u0: OptTensor = None,
        num_nodes: int | None = None,
    ) -> PropagationResult:
        r"""Infers pseudo-labels; the first four arguments are in the order of PyG's
        :class:`~torch_geometric.nn.models.LabelPropagation`.

        Args:
            y (torch.Tensor): Classes, long of shape :obj:`[num_nodes]` or :obj:`[num_nodes, 1]`, or findings
                0/1 of shape :obj:`[num_nodes, num_classes]`, where :obj:`-1` or NaN is unknown.
            edge_index: :obj:`edge_index` of shape :obj:`[2, num_edges]`, or a torch, SciPy or torch_sparse matrix.
            mask (torch.Tensor, optional): Which nodes are labelled: bool of shape :obj:`[num_nodes]`, or indices.
                (default: :obj:`None`, where ``y`` is not negative)
            edge_weight (torch.Tensor, optional): Weights of shape :obj:`[num_edges]`. (default: :obj:`None`, ones)
            num_classes (int, optional): The number of classes. (default: :obj:`None`, the largest labelled one + 1)
            u0 (torch.Tensor, optional): A start for iterative models, of shape :obj:`[num_nodes, num_classes]`.
                (default: :obj:`None`)
            num_nodes (int, optional): The number of nodes; it must be that of ``y``. (default: :obj:`None`)
        """
        return self._propagate(y, edge_index, mask, edge_weight, num_classes, u0, num_nodes)

    def forward(self, data: Data) -> Data:
        """Adds the pseudo-labels to ``data``."""
        for name in ("y", "train_mask"):
            if data.get(name) is None:
                raise ValueError(f"'data.{name}' must be a tensor, got None")
        edge_index, edge_weight = _graph_of(data)
        num_nodes = None if data.get("x") is None else data.x.size(0)
        result = self._propagate(data.y, edge_index, data.train_mask, edge_weight, None, None, num_nodes)
        data.pseudo_y, data.pseudo_prob = result.label, result.prob
        data.certainty, data.pseudo_mask = result.certainty, result.pseudo_mask
        return data

    def _propagate(
        self,
        y: Tensor,
        edge_index: Adjacency,
        mask: OptTensor,
        edge_weight: OptTensor,
        num_classes: int | None,
        u0: OptTensor,
        num_nodes: int | None,
    ) -> PropagationResult:
        """Checks, solves on the reached part, and spreads the answer over all nodes."""
        labels = read_labels(y, mask, num_classes, num_nodes)

        def read_graph() -> tuple[CanonicalGraph, list[str]]:
            graph, notes = canonical_graph(edge_index, edge_weight, labels.num_nodes, self.symmetrize)
            if graph.edge_weight.device != labels.sign.device:
                raise ValueError(
                    f"'y' must be on the device of the graph, {graph.edge_weight.device}, got {labels.sign.device}"
                )
            check_start(u0, labels)
            return graph, notes

        return self._infer(labels, read_graph, u0)

    def _infer(
        self,
        labels: Labels,
        read_graph: Callable[[], tuple[CanonicalGraph, list[str]]],
        u0: OptTensor = None,
        stacklevel: int = 5,
    ) -> PropagationResult:
        """Solves on the part of a graph that labels reach, and spreads the answer over all nodes."""
        graph, notes = read_graph()  # here, so that nobody else holds it when it is let go
        communicator = graph.communicator
        reached = torch.isin(graph.component, communicator.union(graph.component[labels.labelled]))
        inside = reached & (graph.degree > 0)
        usable = labels.usable(inside, communicator)
        columns = usable.nonzero().view(-1)
        notes += _label_notes(labels, int(communicator.sum((~reached).sum())), usable)
        if notes and communicator.rank == 0:
            warnings.warn("; ".join(notes), GraphWarning, stacklevel=stacklevel)

        dtype = graph.edge_weight.dtype
        result = None
        if columns.numel():
            nodes, part = inside.nonzero().view(-1), graph.subgraph(inside)
            order = local_order(part)
            if order is not None:
                nodes, part = nodes[order], part.reordered(order)
            task = LabelTask(
                part,
                labels.sign[nodes][:, columns].to(dtype),
                labels.multi_label,
                columns,
                labels.num_classes,
                None if u0 is None else u0[nodes][:, columns].to(dtype),
            )
            del graph, part  # nothing but the task is needed from here on
            solution = self._decide(task) if columns.numel() > 1 or labels.multi_label else _only_class(task)
            result = _blank(labels, reached, dtype)  # not before: what the solve needs at its peak is the most of all
            self._spread(result, labels, task, solution, nodes, columns)
            if solution.status != "converged" and communicator.rank == 0:
                warnings.warn(
                    f"{self.__class__.__name__} ended with status {solution.status!r}",
                    ConvergenceWarning,
                    stacklevel=stacklevel,
                )
        result = result or _blank(labels, reached, dtype)
        unknown = _set_priors(result, labels, usable, communicator) if labels.multi_label else None
        _keep_labels(result, labels, ~inside if self.outvote else torch.ones_like(inside))
        result.certainty = certainty(result.prob, labels.multi_label, unknown)
        result.certainty[~reached] = 0
        return result

    def _decide(self, task: LabelTask) -> Solution:
        """Solves, and moves the scores to the wanted class volumes."""
        if self.class_volume is None:
            return self._solve(task)
        volume = class_volume(task, self.class_volume, "class_volume")
        solution = self._solve(task)
        score, missed = match_volumes(solution.score, task, volume)
        if missed > _MISSED * task.graph.total_nodes and task.graph.communicator.rank == 0:
            warnings.warn(
                f"a class misses its volume by {missed} of {task.graph.total_nodes} nodes, whose scores are tied",
                ConvergenceWarning,
                stacklevel=6,
            )
        return replace(solution, score=score)

    def _spread(
        self,
        result: PropagationResult,
        labels: Labels,
        task: LabelTask,
        solution: Solution,
        nodes: Tensor,
        columns: Tensor,
    ) -> None:
        """Writes the solution of the subgraph and of the present classes into the full result."""
        if self.soft_label == "calibrated":
            prob = calibrated(task, solution)
        elif task.multi_label:
            prob = relative_weights(solution.score, multi_label=True)
        elif self.class_volume is None:
            prob = relative_weights(solution.u, multi_label=False)
        else:  # the volumes moved the scores, and a soft label agrees with the hard one
            prob = relative_weights(solution.score - solution.score.mean(dim=1, keepdim=True), multi_label=False)
        rows = nodes.unsqueeze(1)
        result.u[rows, columns] = solution.u
        if not labels.multi_label:
            result.prob[nodes] = 0  # a class without a label is never predicted
        result.prob[rows, columns] = prob.to(result.prob.dtype)
        if labels.multi_label:
            result.label[rows, columns] = (solution.score > 0).long()
        else:
            result.label[nodes] = columns[solution.score.argmax(dim=1)]
        result.trace, result.status = solution.trace, solution.status

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"


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


def _blank(labels: Labels, reached: Tensor, dtype: torch.dtype) -> PropagationResult:
    """The result where nothing is known: unreached rows, absent classes."""
    shape = (labels.num_nodes, labels.num_classes)
    device = reached.device
    label = torch.full(shape if labels.multi_label else shape[:1], -1, dtype=torch.long, device=device)
    return PropagationResult(
        u=torch.zeros(shape, dtype=dtype, device=device),
        label=label,
        prob=torch.full(shape, 0.5 if labels.multi_label else 1 / labels.num_classes, dtype=dtype, device=device),
        certainty=torch.zeros(shape[:1], dtype=dtype, device=device),
        reached=reached,
        pseudo_mask=reached & ~labels.labelled,
        trace=Trace(),
        status="converged",
    )


def _only_class(task: LabelTask) -> Solution:
    """One class alone has nothing to be weighed against: every reached node gets it."""
    ones = torch.ones_like(task.sign)
    return Solution(ones, ones, Trace(), "converged")


def _keep_labels(result: PropagationResult, labels: Labels, where: Tensor) -> None:
    """What is known stays as it was given at the nodes ``where`` it is kept."""
    known = (labels.sign != 0) & where.unsqueeze(1)
    given = ((labels.sign + 1) / 2).to(result.prob.dtype)
    result.prob = torch.where(known, given, result.prob)
    if labels.multi_label:
        result.label = torch.where(known, given.long(), result.label)
    else:
        result.label = torch.where(labels.labelled & where, labels.sign.argmax(dim=1), result.label)


def _set_priors(result: PropagationResult, labels: Labels, usable: Tensor, communicator: Communicator) -> Tensor:
    """Gives the findings that cannot be inferred their prior, and says at which entries nothing is known."""
    positive, negative = communicator.sum((labels.sign > 0).sum(dim=0)), communicator.sum((labels.sign < 0).sum(dim=0))
    prior = (positive + 1) / (positive + negative + 2)
    unknown = ~usable & (labels.sign == 0) & result.reached.unsqueeze(1)
    result.prob = torch.where(unknown, prior.to(result.prob.dtype), result.prob)
    result.label = torch.where(unknown, (positive > negative).long(), result.label)
    return unknown


def model_repr(model: Any, **options: Any) -> str:
    """``Name(option=value, …)`` for a model's ``repr``."""
    inside = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return f"{model.__class__.__name__}({inside})"
