from __future__ import annotations

import functools

import torch
from torch import Tensor

from tg_crepe.energy.normaliser import along_degree
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.inference.class_mass import class_shares
from tg_crepe.inference.task import LabelTask
from tg_crepe.models.crepe.balance import ClassVolumes, found_shares, observed_volume
from tg_crepe.solvers.resolvent import resolvent
from tg_crepe.solvers.trace import Status
from tg_crepe.typing import OptTensor

#: The flow smooths what the solver leaves, so a loose solve is enough.
_TOL = 1e-4

#: Rounds of edge re-weighting, the exponent of the affinity of two soft labels, and its floor.
_ROUNDS, _POWER, _FLOOR = 2, 4, 1e-3


def diffuse(
    task: LabelTask, graph: CanonicalGraph, rate: float, volume: Tensor, power: int = 1
) -> tuple[Tensor, Status]:
    r"""Soft labels by diffusion with class-mass normalisation, from which the flow starts.

    .. math::
        F = A^p\, Y, \quad A = (I - (1-\beta) S)^{-1}, \quad \beta = \frac{x}{1+x}, \qquad
        V = D^{-1/2} F, \quad V^l \leftarrow V^l \frac{\pi_l}{\langle d, V^l \rangle}, \qquad
        P_i^l = \frac{V_i^l}{\sum_{l'} V_i^{l'}},

    where :math:`Y` are the one-hot labels and :math:`\pi` the class volumes. A finding is two classes.

    Args:
        task (LabelTask): The labels.
        graph (CanonicalGraph): The edges of the task, perhaps with other weights.
        rate (float): The screening rate :math:`x`.
        volume (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`.
        power (int, optional): :math:`p`. (default: :obj:`1`)

    Returns:
        Soft labels in double precision, of shape :obj:`[num_nodes, num_classes]`, and how the solver ended.
    """
    status: Status = "converged"
    x = task.sources
    for _ in range(power):
        result = resolvent(graph, x, 1 / (1 + rate), _TOL)
        x = result.x
        if result.status != "converged":
            status = result.status
    return class_shares(x, task, graph, volume), status


def reweighted_diffusion(
    task: LabelTask, rate: float, volume: Tensor, reweight: bool, observe: bool, outvote: bool = False
) -> tuple[Tensor, CanonicalGraph, ClassVolumes, Status]:
    r"""Soft labels by :func:`diffuse`, and the graph whose edges trust them.

    Two rounds of :math:`w'_{ij} = w_{ij} \left( \sum_l \sqrt{P_i^l P_j^l} \right)^4` (always from the original
    weights), each followed by a diffusion on :math:`w'`. Not part of the paper's model. With ``observe``, the class
    volumes are corrected by what the first diffusion finds, see :func:`~tg_crepe.models.crepe.balance.observed_volume`.

    With ``outvote``, a labelled node is what its neighbours say, :math:`P_i \leftarrow (D^{-1} W P)_i`, and the source
    of the next diffusion is as strong as they support it: :math:`Y_i^l (D^{-1} W P)_i^l`.

    Returns:
        Soft labels of shape :obj:`[num_nodes, num_classes]`, the graph (the task's own without re-weighting), the class
        volumes, and how the solver ended.
    """
    graph, volumes = task.graph, ClassVolumes(volume)
    status: Status = "converged"
    x: OptTensor = None
    source = task.sources
    for remaining in range(_ROUNDS if reweight else 0, -1, -1):
        result = resolvent(graph, source, 1 / (1 + rate), _TOL, x)  # the last round's answer is near
        x = result.x
        status = status if result.status == "converged" else result.status
        if observe:
            observe, volumes = False, observed_volume(functools.partial(_diffused_shares, x, task), task, volume)
        prob = class_shares(x, task, graph, volumes.share)
        if outvote:
            around = graph.multiply(prob.to(x.dtype)).double() / graph.degree.double().unsqueeze(-1)
            prob = torch.where(task.sign != 0, around, prob)
            support = torch.cat([around, 1 - around], dim=1) if task.multi_label else around
            source = task.sources * support.to(source.dtype)
        if remaining:
            graph = trusting(prob, task)
    return prob, graph, volumes, status


def _diffused_shares(x: Tensor, task: LabelTask, volume: Tensor) -> Tensor:
    """The shares of the hard labels that diffused sources ``x`` give with class masses ``volume``."""
    return found_shares(class_shares(x, task, task.graph, volume), task)


def trusting(prob: Tensor, task: LabelTask) -> CanonicalGraph:
    r"""The graph of a task with the weights :math:`w_{ij} \left( \sum_l \sqrt{P_i^l P_j^l} \right)^4`.

    Args:
        prob (torch.Tensor): Soft labels :math:`P`, of shape :obj:`[num_nodes, num_classes]`.
        task (LabelTask): The task.
    """
    soft = task.graph.communicator.halo(prob.to(task.graph.edge_weight.dtype))
    affinity = _affinity(soft, task.graph.edge_index, task.multi_label).clamp(_FLOOR, 1) ** _POWER
    return task.graph.with_weight(task.graph.edge_weight * affinity)


def _affinity(prob: Tensor, edge_index: Tensor, multi_label: bool) -> Tensor:
    """The Bhattacharyya coefficient of the soft labels at the two ends of every edge; of findings, their mean."""
    root = prob.sqrt() if not multi_label else torch.cat([prob.sqrt(), (1 - prob).sqrt()], dim=1)
    # A slice of the edges at a time: all of them would be larger than the dual of the flow.
    found = [torch.linalg.vecdot(root[first], root[second]) for first, second in edge_index.split(1 << 17, dim=1)]
    return torch.cat(found) / (prob.size(1) if multi_label else 1)


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
