from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tg_crepe._optional import available
from tg_crepe._threads import for_each_chunk
from tg_crepe.energy.normaliser import along_degree
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reductions import plain_sum
from tg_crepe.inference.evidence import evidence_source
from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.volumes import normalise_masses
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.volumes import VolumePosterior
from tg_crepe.solvers.resolvent import resolvent
from tg_crepe.solvers.trace import Status
from tg_crepe.typing import OptTensor

#: Edges whose affinity is computed at a time.
_EDGES_AT_A_TIME = 1 << 17


@dataclass(frozen=True)
class Start:
    r"""Where a flow begins.

    Args:
        u (torch.Tensor): Class functions, of shape :obj:`[num_nodes, num_classes]`.
        size (torch.Tensor): The :func:`rms_value` of the soft labels that they were made of.
        graph (CanonicalGraph): The edges that the flow runs along, perhaps re-weighted.
        volume (VolumePosterior): The class volumes.
        status (str): How the solver of the start ended. (default: :obj:`"converged"`)
        support (torch.Tensor, optional): Soft labels of the first diffusion, on the edges as they are, of the shape of
            ``u``. (default: :obj:`None`)
        diffused (torch.Tensor, optional): The sources as the last diffusion spreads them, of the same shape.
            (default: :obj:`None`)
    """

    u: Tensor
    size: Tensor
    graph: CanonicalGraph
    volume: VolumePosterior
    status: Status = "converged"
    support: OptTensor = None
    diffused: OptTensor = None


def make_start(prob: Tensor, graph: CanonicalGraph, volume: VolumePosterior, task: LabelTask, status: Status) -> Start:
    """The start that soft labels in double precision give, of shape :obj:`[num_nodes, num_classes]`."""
    u = centre(prob, graph, task.multi_label)
    return Start(u.to(task.sign.dtype), rms_value(u, graph), graph, volume, status)


def diffused_start(
    task: LabelTask, recipe: Recipe, rate: float, find_volume: Callable[[Tensor], VolumePosterior], outvote: bool
) -> Start:
    r"""Soft labels by diffusion, with the masses of the class volumes, and the graph whose edges trust them.

    .. math::
        F = (I - (1-\beta) S)^{-1} Y, \qquad \beta = \frac{x}{1+x},

    where :math:`Y` are the one-hot labels, a finding being two classes, and evidence beside them
    (:func:`~tg_crepe.inference.evidence.evidence_source`); then :func:`~tg_crepe.inference.volumes.normalise_masses`.

    A few rounds of :func:`trust` (always from the original weights), each followed by a diffusion on the new weights.
    Not part of the paper's model.

    With ``outvote``, a labelled node is what its neighbours say, :math:`P_i \leftarrow (D^{-1} W P)_i`, and the source
    of the next diffusion is as strong as they support it: :math:`Y_i^l (D^{-1} W P)_i^l`.

    Args:
        task (LabelTask): The labels.
        recipe (Recipe): The constants.
        rate (float): The screening rate :math:`x`.
        find_volume (callable): The class volumes, from the sources as the first diffusion spreads them.
        outvote (bool): Whether labels may be outvoted.
    """
    graph = task.graph
    status: Status = "converged"
    x: OptTensor = None
    support: OptTensor = None
    own = None if task.spread is None else evidence_source(task)
    sources = task.sources if own is None else task.sources + own
    source = sources
    for remaining in range(recipe.reweight_rounds, -1, -1):
        # The last round's answer is near.
        result = resolvent(graph, source, 1 / (1 + recipe.start_factor * rate), recipe.start_tol, x)
        x = result.x
        status = status if result.status == "converged" else result.status
        # What the nodes around say: the evidence of the node itself is an opinion of its own, in the pool.
        around = x if own is None else (x - own).clamp_(min=0)
        if support is None:
            volume = find_volume(around)
        prob = normalise_masses(around, task, graph, volume.share)
        if support is None:
            support = prob.to(x.dtype)
        if outvote:
            vote = graph.multiply(prob.to(x.dtype)).double() / graph.degree.double().unsqueeze(-1)
            prob = torch.where(task.sign != 0, vote, prob)
            both = torch.cat([vote, 1 - vote], dim=1) if task.multi_label else vote
            source = torch.where(task.sources > 0, task.sources * both.to(source.dtype), sources)
        if remaining:
            graph = trust(prob, task, recipe)
    return replace(make_start(prob, graph, volume, task, status), support=support, diffused=x)


def trust(prob: Tensor, task: LabelTask, recipe: Recipe) -> CanonicalGraph:
    r"""The graph of a task with the weights :math:`w_{ij} \left( \sum_l \sqrt{P_i^l P_j^l} \right)^4`.

    Args:
        prob (torch.Tensor): Soft labels :math:`P`, of shape :obj:`[num_nodes, num_classes]`.
        task (LabelTask): The task.
        recipe (Recipe): The exponent and the floor of the affinity; with no rounds of re-weighting the graph stays.
    """
    if recipe.reweight_rounds == 0:
        return task.graph
    soft = task.graph.communicator.halo(prob.to(task.graph.edge_weight.dtype))
    affinity = _affinity(soft, task.graph.edge_index, task.multi_label).clamp(recipe.affinity_floor, 1)
    return task.graph.with_weight(task.graph.edge_weight * _whole_power(affinity, recipe.affinity_power))


def _whole_power(x: Tensor, exponent: int) -> Tensor:
    """Products alone: torch's power rounds the last numbers of a thread's share in another way than those before."""
    if exponent == 1:
        return x
    half = _whole_power(x, exponent // 2)
    return half * half * x if exponent % 2 else half * half


def _affinity(prob: Tensor, edge_index: Tensor, multi_label: bool) -> Tensor:
    """The Bhattacharyya coefficient of the soft labels at the two ends of every edge; of findings, their mean."""
    root = prob.sqrt() if not multi_label else torch.cat([prob.sqrt(), (1 - prob).sqrt()], dim=1)
    first, second = edge_index
    if root.device.type == "cpu" and available("numba"):
        from tg_crepe.models.crepe.affinity_kernel import fill_affinity

        found = root.new_empty(first.numel())
        arrays = [x.contiguous().numpy() for x in (first, second, root, found)]
        bounds = [*range(0, first.numel(), _EDGES_AT_A_TIME), first.numel()]
        for_each_chunk(lambda k: fill_affinity(bounds[k], bounds[k + 1], *arrays), len(bounds) - 1)
    else:  # a slice at a time: all of them would be larger than the dual of the flow
        parts = edge_index.split(_EDGES_AT_A_TIME, dim=1)
        found = torch.cat([torch.linalg.vecdot(root[one], root[other]) for one, other in parts])
    return found / (prob.size(1) if multi_label else 1)


def centre(prob: Tensor, graph: CanonicalGraph, multi_label: bool) -> Tensor:
    r"""Class functions :math:`u = d P` with zero sum over classes and :math:`\langle u^l, d \rangle = 0`.

    Args:
        prob (torch.Tensor): Soft labels in double precision, of shape :obj:`[num_nodes, num_classes]`.
        graph (CanonicalGraph): The graph.
        multi_label (bool): Whether the columns are findings, centred at one half.
    """
    degree = graph.degree.double()
    middle = 0.5 if multi_label else prob.mean(dim=1, keepdim=True)
    u = degree.unsqueeze(-1) * (prob - middle)
    return u - along_degree(u, degree, graph.communicator)


def feasible_start(u0: Tensor, graph: CanonicalGraph, multi_label: bool) -> Tensor:
    """A user's start with zero sum over classes and no part along the degree."""
    u = u0.double() if multi_label else u0.double() - u0.double().mean(dim=1, keepdim=True)
    u = u - along_degree(u, graph.degree.double(), graph.communicator)
    if not float(graph.communicator.max(u.norm())) > 0:
        raise ValueError("'u0' must differ from node to node and class to class, got a constant start")
    return u.to(u0.dtype)


def rms_value(u: Tensor, graph: CanonicalGraph) -> Tensor:
    """The root of the degree-weighted mean square of v = u/d, a scalar in double precision."""
    degree, communicator = graph.degree.double(), graph.communicator
    square = u.double().square().sum(dim=1)
    return (plain_sum(square / degree, communicator) / plain_sum(degree, communicator)).sqrt()
