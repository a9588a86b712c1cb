from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tg_crepe.graph.communicator import ALONE, Communicator
from tg_crepe.graph.reductions import shared_quantile
from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.transport import move_nodes, smooth_offsets
from tg_crepe.typing import OptTensor

#: Rounds over single classes at most, and the share of the nodes by which a class may be off without them. A small
#: graph must be met to the node, which takes more rounds, and has time for them: so many nodes are looked at in any
#: case.
_ROUNDS, _TOLERANCE, _LOOKS = 1000, 1e-4, 2_000_000

#: Scores up to which every process has all of them (1.6 MB): the search is hundreds of messages otherwise, and takes
#: longer in them than in its arithmetic.
_SHARED = 200_000


def match_volumes(score: Tensor, task: LabelTask, volume: Tensor) -> tuple[Tensor, int]:
    r"""Shifts the scores so that every class is chosen by its number of nodes.

    .. math::
        s_i^l \leftarrow s_i^l + b_l \quad \text{with} \quad
        \left| \{ i : l = \arg\max_{l'} (s_i^{l'} + b_{l'}) \} \right| = \pi_l n,

    where :math:`\pi` are the class volumes and labelled nodes count with their label: only the decisions at unlabelled
    nodes can move. Such a :math:`\mathbf{b}` minimises the convex function
    :math:`\sum_i \max_l (s_i^l + b_l) - \sum_l b_l \pi_l n`, and the labels are those with the largest total score for
    these numbers: :mod:`tg_crepe.inference.transport` finds them to the node. A finding of multi-label data has a
    threshold of its own, by one selection. Nodes with equal scores cannot be told apart, so with many ties a class may
    miss its number; where it does by more than one node in ten thousand, classes are also moved one at a time, each
    to its number, and the better of the two is taken.

    Args:
        score (torch.Tensor): The scores of a model, of shape :obj:`[num_nodes, num_classes]`.
        task (LabelTask): The labels.
        volume (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`; classes sum to one.

    Returns:
        The shifted scores in double precision, and by how many nodes the worst class misses its number.
    """
    offset, missed = volume_offsets(score.double(), task, volume)
    return score.double() + offset, missed


def volume_offsets(score: Tensor, task: LabelTask, volume: Tensor, start: OptTensor = None) -> tuple[Tensor, int]:
    r"""The shifts :math:`\mathbf{b}` of :func:`match_volumes`, up to a constant, for scores in double precision.

    Args:
        score (torch.Tensor): The scores, of shape :obj:`[num_nodes, num_classes]`.
        task (LabelTask): The labels.
        volume (torch.Tensor): :math:`\pi`, of shape :obj:`[num_classes]`.
        start (torch.Tensor, optional): Shifts that suited scores much like these, of shape :obj:`[num_classes]`: where
            the search begins changes no label, but how long it takes. (default: :obj:`None`, from quantiles)

    Returns:
        The shifts, of shape :obj:`[num_classes]`, and by how many nodes the worst class misses its number.
    """
    known, communicator = task.sign != 0, task.graph.communicator
    wanted = (volume * task.graph.total_nodes - task.positive_count).clamp(min=0)
    if task.multi_label:
        found = [
            _finding_offset(score[~known[:, column], column], wanted[column], communicator)
            for column in range(task.num_classes)
        ]
        return torch.stack([b for b, _ in found]), max(off for _, off in found)
    held, size = score[~task.labelled], int(communicator.sum((~task.labelled).sum()))
    if communicator.world_size > 1 and size * task.num_classes <= _SHARED:
        held, communicator = communicator.gather(held.view(-1))[0].view(size, task.num_classes), ALONE
    return _class_offsets(held.t().contiguous(), _whole_numbers(wanted, size), communicator, start)


def _class_offsets(
    score: Tensor, number: Tensor, communicator: Communicator, start: OptTensor = None
) -> tuple[Tensor, int]:
    """Offsets of the classes for scores of shape ``[num_classes, num_nodes]``, and how far the worst class is off."""
    num_classes, num_nodes = score.size(0), int(number.sum())
    if num_nodes == 0:
        return score.new_zeros(num_classes), 0
    if start is None:  # each class's own quantile: scores of very different sizes would take many steps from zero
        start = -_thresholds(score.unbind(), number.tolist(), num_nodes, communicator)
    rounds = max(_ROUNDS, _LOOKS // num_nodes)
    # Classes without nodes are left out of the search: nothing holds their offsets from below.
    some = number > 0
    held, size = score[some], number[some]
    near = smooth_offsets(held, size, start[some], communicator)
    # To move a node is to look at few classes, so there is time for so many of them as for the rounds.
    found = move_nodes(held, size, near, rounds * num_classes, communicator)
    offset = start.clone()
    # A shift of all classes changes no label: the one that stays nearest to the quantiles.
    offset[some] = found + ((start[some] - found) * size).sum() / num_nodes
    top = (held + offset[some].unsqueeze(-1)).amax(dim=0)
    for empty in (~some).nonzero().view(-1).tolist():
        offset[empty] = -_thresholds([score[empty] - top], [0], num_nodes, communicator)[0]
    missed = _missed(score, number, offset, communicator)
    if missed > _TOLERANCE * num_nodes:  # for ties, or for scores that rounding makes equal
        other = _coordinate_rounds(score, number, start, rounds, communicator)
        other_missed = _missed(score, number, other, communicator)
        if other_missed < missed:
            return other, other_missed
    return offset, missed


def _missed(score: Tensor, number: Tensor, offset: Tensor, communicator: Communicator) -> int:
    """By how many nodes the worst class misses its number."""
    chosen = torch.bincount((score + offset.unsqueeze(-1)).argmax(dim=0), minlength=number.numel())
    return int((communicator.sum(chosen) - number).abs().max())


def _coordinate_rounds(
    score: Tensor, number: Tensor, offset: Tensor, rounds: int, communicator: Communicator
) -> Tensor:
    """Each round takes the class that is furthest from its number and sets its offset by one selection among its
    margins over the best rival: the exact minimum along one coordinate, which tries both sides of a tie."""
    num_classes, num_nodes = score.size(0), int(number.sum())
    offset = offset.clone()
    shifted = score + offset.unsqueeze(-1)
    best, fewest, last, still = offset.clone(), num_nodes + 1, -1, 0
    for _ in range(rounds):
        chosen = communicator.sum((shifted == shifted.amax(dim=0)).sum(dim=1))  # far quicker than to count an argmax
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
        offset[last] = -_thresholds([margin], [int(number[last])], num_nodes, communicator)[0]
        still = still + 1 if float(offset[last]) == before else 0
        if still > num_classes:  # the same class was asked twice with the same offsets: ties, for ever
            break
        shifted[last] = score[last] + offset[last]
    return best


def _finding_offset(score: Tensor, wanted: Tensor, communicator: Communicator) -> tuple[Tensor, int]:
    """The offset that makes as many scores positive as ``wanted``, and how many there are too many or too few."""
    size = int(communicator.sum(torch.tensor(score.numel(), device=score.device)))
    if size == 0:
        return score.new_zeros(()), 0
    number = min(int(wanted.round()), size)
    offset = -_thresholds([score], [number], size, communicator)[0]
    return offset, abs(int(communicator.sum((score + offset > 0).sum())) - number)


def _thresholds(margins: Sequence[Tensor], numbers: Sequence[int], size: int, communicator: Communicator) -> Tensor:
    """For each list of margins a value that its ``number`` largest ones exceed, half way to the next one.

    Args:
        margins (sequence): What this process holds of every list, 1-D tensors.
        numbers (sequence): How many are to exceed the value.
        size (int): The length of the lists on all processes.
        communicator (Communicator): What connects them.
    """
    nothing = margins[0].new_full((2,), -torch.inf)
    ends = torch.stack([torch.stack([-own.min(), own.max()]) if own.numel() else nothing for own in margins])
    ends = communicator.max(ends)
    low, high = -ends[:, 0], ends[:, 1]
    beyond = torch.where(high > low, high - low, 1.0)  # where none or all of them are to exceed it
    places = [place for number in numbers for place in (size - number + 1, size - number)]
    found = _smallest([own for own in margins for _ in range(2)], [min(max(k, 1), size) for k in places], communicator)
    number = torch.tensor(numbers, device=low.device)
    above = torch.where(number > 0, found[::2], high + beyond)
    below = torch.where(number < size, found[1::2], low - beyond)
    return (above + below) / 2


def _smallest(columns: Sequence[Tensor], places: Sequence[int], communicator: Communicator) -> Tensor:
    """The number at a place of every column, counted from 1, in their order on all processes."""
    if communicator.world_size == 1:
        return torch.stack([column.kthvalue(place)[0] for column, place in zip(columns, places, strict=True)])
    wanted = columns[0].new_tensor(places, dtype=torch.float64)
    return shared_quantile(columns, [torch.ones_like(column) for column in columns], wanted, communicator)


def _whole_numbers(wanted: Tensor, total: int) -> Tensor:
    """Whole numbers in proportion to ``wanted`` that add up to ``total``, by the largest remainder."""
    exact = wanted * (total / wanted.sum().clamp(min=1e-300))
    number = exact.floor()
    short = total - int(number.sum())
    number[torch.argsort(exact - number, descending=True, stable=True)[:short]] += 1
    return number.long()
