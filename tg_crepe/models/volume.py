from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tg_crepe._selection import shared_quantile
from tg_crepe.graph.communicator import Communicator
from tg_crepe.models.task import LabelTask

#: Rounds at the most, and the share of the nodes by which a class may be off at the end of them. A small graph must be
#: met to the node, which takes more rounds, and has time for them: so many nodes are looked at in any case.
_ROUNDS, _TOLERANCE, _LOOKS = 1000, 1e-4, 2_000_000


def match_volumes(score: Tensor, task: LabelTask, volume: Tensor) -> tuple[Tensor, int]:
    r"""Shifts the scores so that every class is chosen by its number of nodes.

    .. math::
        s_i^l \leftarrow s_i^l + b_l \quad \text{with} \quad
        \left| \{ i : l = \arg\max_{l'} (s_i^{l'} + b_{l'}) \} \right| = \pi_l n,

    where :math:`\pi` are the class volumes and labelled nodes count with their label: only the decisions at unlabelled
    nodes can move. Such a :math:`\mathbf{b}` minimises the convex function
    :math:`\sum_i \max_l (s_i^l + b_l) - \sum_l b_l \pi_l n`. Each round takes the class that is furthest from its
    number and sets its offset by one selection among its margins over the best rival, until no class is off by more
    than one node in ten thousand. A finding of multi-label data has a threshold of its own, by one selection. Nodes
    with equal scores cannot be told apart, so with many ties a class may miss its number.

    Args:
        score (torch.Tensor): The scores of a model, of shape :obj:`[num_nodes, num_classes]`.
        task (LabelTask): The labels.
        volume (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`; classes sum to one.

    Returns:
        The shifted scores in double precision, and by how many nodes the worst class misses its number.
    """
    score, known, over = score.double(), task.sign != 0, task.graph.communicator
    wanted = (volume * task.graph.total_nodes - task.positive_count).clamp(min=0)
    if task.multi_label:
        found = [
            _finding_offset(score[~known[:, column], column], wanted[column], over)
            for column in range(task.num_classes)
        ]
        offset, missed = torch.stack([b for b, _ in found]), max(off for _, off in found)
    else:
        free = ~task.labelled
        number = _whole_numbers(wanted, int(over.sum(free.sum())))
        offset, missed = _class_offsets(score[free].t().contiguous(), number, over)
    return score + offset, missed


def _class_offsets(score: Tensor, number: Tensor, over: Communicator) -> tuple[Tensor, int]:
    """The offset of every class for scores of shape ``[num_classes, num_nodes]``, and how far the worst class is off.

    An offset set from the margins is the exact minimum along one coordinate, so no step size is needed.
    """
    num_classes, num_nodes = score.size(0), int(number.sum())
    if num_nodes == 0:
        return score.new_zeros(num_classes), 0
    # The start is each class's own quantile: scores of very different sizes would take many rounds from zero.
    offset = -_thresholds(score.unbind(), number.tolist(), num_nodes, over)
    shifted = score + offset.unsqueeze(-1)
    best, fewest, last, still = offset.clone(), num_nodes + 1, -1, 0
    for _ in range(max(_ROUNDS, _LOOKS // num_nodes)):
        chosen = over.sum((shifted == shifted.amax(dim=0)).sum(dim=1))  # far quicker than to count an argmax
        off = (chosen - number).abs()
        if int(off.max()) < fewest:
            best, fewest = offset.clone(), int(off.max())
        if fewest <= _TOLERANCE * num_nodes:
            break
        if last >= 0:
            off[last] = -1  # a class that cannot have its number for ties must not hold up the others
        last = int(off.argmax())
        shifted[last] = -torch.inf
        margin = score[last] - shifted.amax(dim=0)
        before = float(offset[last])
        offset[last] = -_thresholds([margin], [int(number[last])], num_nodes, over)[0]
        still = still + 1 if float(offset[last]) == before else 0
        if still > num_classes:  # the same class was asked twice with the same offsets: ties, for ever
            break
        shifted[last] = score[last] + offset[last]
    chosen = over.sum(torch.bincount((score + best.unsqueeze(-1)).argmax(dim=0), minlength=num_classes))
    return best, int((chosen - number).abs().max())


def _finding_offset(score: Tensor, wanted: Tensor, over: Communicator) -> tuple[Tensor, int]:
    """The offset that makes as many scores positive as ``wanted``, and how many there are too many or too few."""
    size = int(over.sum(torch.tensor(score.numel(), device=score.device)))
    if size == 0:
        return score.new_zeros(()), 0
    number = min(int(wanted.round()), size)
    offset = -_thresholds([score], [number], size, over)[0]
    return offset, abs(int(over.sum((score + offset > 0).sum())) - number)


def _thresholds(margins: Sequence[Tensor], numbers: Sequence[int], size: int, over: Communicator) -> Tensor:
    """For each list of margins a value that its ``number`` largest ones exceed, half way to the next one.

    Args:
        margins (sequence): What this process holds of every list, 1-D tensors.
        numbers (sequence): How many are to exceed the value.
        size (int): The length of the lists on all processes.
        over (Communicator): What connects them.
    """
    nothing = margins[0].new_full((2,), -torch.inf)
    ends = torch.stack([torch.stack([-own.min(), own.max()]) if own.numel() else nothing for own in margins])
    ends = over.max(ends)
    low, high = -ends[:, 0], ends[:, 1]
    beyond = torch.where(high > low, high - low, 1.0)  # where none or all of them are to exceed it
    places = [place for number in numbers for place in (size - number + 1, size - number)]
    found = _smallest([own for own in margins for _ in range(2)], [min(max(k, 1), size) for k in places], over)
    number = torch.tensor(numbers, device=low.device)
    above = torch.where(number > 0, found[::2], high + beyond)
    below = torch.where(number < size, found[1::2], low - beyond)
    return (above + below) / 2


def _smallest(columns: Sequence[Tensor], places: Sequence[int], over: Communicator) -> Tensor:
    """The number at a place of every column, counted from 1, in their order on all processes."""
    if over.world_size == 1:
        return torch.stack([column.kthvalue(place)[0] for column, place in zip(columns, places, strict=True)])
    wanted = columns[0].new_tensor(places, dtype=torch.float64)
    return shared_quantile(columns, [torch.ones_like(column) for column in columns], wanted, over)


def _whole_numbers(wanted: Tensor, total: int) -> Tensor:
    """Whole numbers in proportion to ``wanted`` that add up to ``total``, by the largest remainder."""
    exact = wanted * (total / wanted.sum().clamp(min=1e-300))
    number = exact.floor()
    short = total - int(number.sum())
    number[torch.argsort(exact - number, descending=True, stable=True)[:short]] += 1
    return number.long()
