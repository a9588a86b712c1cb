from __future__ import annotations

import torch
from torch import Tensor

from tg_crepe._checks import check_choice
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reductions import safe_divide
from tg_crepe.inference.task import LabelTask

#: Names of class volumes; a tensor of shares may be given instead.
VOLUMES = ("labels", "uniform")

#: Labels of every class that are imagined before any is seen: few labels say little about the size of the classes.
PSEUDO_COUNT = 5


def check_volume(name: str, volume: str | Tensor) -> None:
    """Raise unless the volumes of the argument ``name`` have a known name or are a vector of positive numbers."""
    if not isinstance(volume, Tensor):
        check_choice(name, volume, VOLUMES)
    elif volume.dim() != 1 or not bool((torch.isfinite(volume) & (volume > 0)).all()):
        raise ValueError(f"'{name}' must hold one number > 0 per class, got {volume.tolist()}")


def resolve_volume(name: str, volume: str | Tensor, task: LabelTask, pseudo_count: float = PSEUDO_COUNT) -> Tensor:
    r"""The class volumes: the share :math:`\pi_l` of the nodes that class :math:`l` is expected to have.

    .. math::
        \pi_l = \frac{m_l + c}{m + cL} \text{ (labels)}, \qquad \pi_l = 1/L \text{ (uniform)},

    where :math:`m_l` of :math:`m` labels are of class :math:`l`. A finding is two classes, present and absent.

    Args:
        name (str): What errors call the argument.
        volume (str or torch.Tensor): :obj:`"labels"`, :obj:`"uniform"`, or volumes of shape :obj:`[total_classes]`,
            which are scaled to sum to one (findings: used as they are, below one).
        task (LabelTask): The labels.
        pseudo_count (float, optional): :math:`c`. (default: :obj:`5`)

    Returns:
        torch.Tensor: In double precision, of shape :obj:`[num_classes]`.
    """
    positive = task.positive_count.double()
    rivals = 2 if task.multi_label else task.num_classes
    if isinstance(volume, Tensor):
        if volume.numel() != task.total_classes:
            raise ValueError(
                f"'{name}' must hold one number for each of the {task.total_classes} classes, got {volume.numel()}"
            )
        share = volume.to(positive)[task.classes]
        if task.multi_label and bool((share >= 1).any()):
            raise ValueError(f"'{name}' of a finding must lie below 1, got {volume.tolist()}")
        return share if task.multi_label else share / share.sum()
    if volume == "uniform":
        return torch.full_like(positive, 1 / rivals)
    known = task.known_count.double()
    return (positive + pseudo_count) / (known + pseudo_count * rivals)


def normalise_masses(x: Tensor, task: LabelTask, graph: CanonicalGraph, volume: Tensor) -> Tensor:
    r"""Soft labels from diffused sources, every class with the mass of its volume.

    .. math::
        V = D^{-1/2} X, \qquad V^l \leftarrow V^l \frac{\pi_l}{\langle d, V^l \rangle}, \qquad
        P_i^l = \frac{V_i^l}{\sum_{l'} V_i^{l'}}.

    Args:
        x (torch.Tensor): :math:`X`, with the columns of ``task.sources``.
        task (LabelTask): The labels.
        graph (CanonicalGraph): The graph that they were diffused on.
        volume (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`.

    Returns:
        torch.Tensor: In double precision, of shape :obj:`[num_nodes, num_classes]`.
    """
    degree = graph.degree.double().unsqueeze(-1)
    v = (x.double() / degree.sqrt()).clamp(min=0)
    mass = graph.communicator.sum((degree * v).sum(dim=0))
    wanted = torch.cat([volume, 1 - volume]) if task.multi_label else volume
    v = v * (wanted / torch.where(mass > 0, mass, 1.0))
    return row_shares(v, task.multi_label)


def row_shares(v: Tensor, multi_label: bool) -> Tensor:
    """Non-negative evidence as shares of its row; a finding is two columns, known positives and known negatives."""
    if multi_label:
        positive, negative = v.chunk(2, dim=1)
        return safe_divide(positive, positive + negative, 0.5)
    return safe_divide(v, v.sum(dim=1, keepdim=True), 1 / v.size(1))


def found_volume(score: Tensor, task: LabelTask) -> Tensor:
    """The share of the nodes that every class gets by the largest score, or by its label, in double precision."""
    chosen = torch.where(task.labelled, task.y, score.argmax(dim=1))
    counts = task.graph.communicator.sum(torch.bincount(chosen, minlength=task.num_classes))
    return counts.double() / task.graph.total_nodes
