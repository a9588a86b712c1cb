from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tg_crepe._checks import check_choice
from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.communicator import ALONE, Communicator
from tg_crepe.graph.reductions import safe_divide, shared_quantile
from tg_crepe.inference.task import LabelTask

#: Names of class volumes; a tensor of shares may be given instead.
VOLUMES = ("labels", "uniform")

#: Labels of every class that are imagined before any is seen: few labels say little about the size of the classes.
PSEUDO_COUNT = 5

#: Rounds at most, and the share of the nodes by which a class may be off at the end of them. A small graph must be
#: met to the node, which takes more rounds, and has time for them: so many nodes are looked at in any case.
_ROUNDS, _TOLERANCE, _LOOKS = 1000, 1e-4, 2_000_000

#: Scores up to which every process has all of them (1.6 MB): a round is ten messages otherwise, and takes longer in
#: them than in its arithmetic.
_SHARED = 200_000


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
    score, known, communicator = score.double(), task.sign != 0, task.graph.communicator
    wanted = (volume * task.graph.total_nodes - task.positive_count).clamp(min=0)
    if task.multi_label:
        found = [
            _finding_offset(score[~known[:, column], column], wanted[column], communicator)
            for column in range(task.num_classes)
        ]
        offset, missed = torch.stack([b for b, _ in found]), max(off for _, off in found)
    else:
        held, size = score[~task.labelled], int(communicator.sum((~task.labelled).sum()))
        if communicator.world_size > 1 and size * task.num_classes <= _SHARED:
            held, communicator = communicator.gather(held.view(-1))[0].view(size, task.num_classes), ALONE
        offset, missed = _class_offsets(held.t().contiguous(), _whole_numbers(wanted, size), communicator)
    return score + offset, missed


def _class_offsets(score: Tensor, number: Tensor, communicator: Communicator) -> tuple[Tensor, int]:
    """The offset of every class for scores of shape ``[num_classes, num_nodes]``, and how far the worst class is off.

    An offset set from the margins is the exact minimum along one coordinate, so no step size is needed.
    """
    num_classes, num_nodes = score.size(0), int(number.sum())
    if num_nodes == 0:
        return score.new_zeros(num_classes), 0
    # The start is each class's own quantile: scores of very different sizes would take many rounds from zero.
    offset = -_thresholds(score.unbind(), number.tolist(), num_nodes, communicator)
    shifted = score + offset.unsqueeze(-1)
    best, fewest, last, still = offset.clone(), num_nodes + 1, -1, 0
    for _ in range(max(_ROUNDS, _LOOKS // num_nodes)):
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
    chosen = communicator.sum(torch.bincount((score + best.unsqueeze(-1)).argmax(dim=0), minlength=num_classes))
    return best, int((chosen - number).abs().max())


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
