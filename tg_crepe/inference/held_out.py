"""What labels that were left out say of a diffusion that did not know them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tg_crepe._optional import available
from tg_crepe._threads import for_each_chunk, row_ranges
from tg_crepe.graph.reductions import weighted_sum
from tg_crepe.inference.task import LabelTask
from tg_crepe.inference.volumes import row_shares
from tg_crepe.solvers.resolvent import loose_resolvent, loose_resolvents

#: Parts that the labels of every class are dealt into; each part is judged by the others.
FOLDS = 5

#: Labels that are judged before the next part is left out.
_ENOUGH = 100

#: Columns that are diffused together at most, where they are no more numbers than these: several parts in one product
#: read the matrix once, and rows of this width take half the time per column.
_COLUMNS, _NUMBERS = 64, 4_000_000

#: The precision of the diffusions; what is counted are largest entries.
_TOL = 1e-1


@dataclass(frozen=True)
class HeldOut:
    r"""What the other labels say of those that were left out, at several rates, with equal class masses.

    Args:
        rate (tuple): The screening rates.
        prob (torch.Tensor): Soft labels of the labels that were left out, in double precision, of shape
            :obj:`[num_rates, num_judged, num_classes]`; zero where no other label reaches.
        y (torch.Tensor): Their classes, of shape :obj:`[num_judged]`.
        found (torch.Tensor): The share of the unlabelled nodes that every class gets, the mean over the parts, of shape
            :obj:`[num_rates, num_classes]`.
    """

    rate: tuple[float, ...]
    prob: Tensor
    y: Tensor
    found: Tensor

    def mixed(self, weight: Tensor) -> HeldOut:
        """The mean over the rates with weights of shape :obj:`[num_rates]`, as if it were one rate."""
        mean = math.exp(sum(float(w) * math.log(rate) for w, rate in zip(weight, self.rate, strict=True)))
        return HeldOut(
            (mean,), torch.tensordot(weight, self.prob, 1).unsqueeze(0), self.y, (weight @ self.found).unsqueeze(0)
        )

    def hits(self, volume: Tensor | None = None) -> Tensor:
        """Which labels are found, with the class masses ``volume``, bool of shape :obj:`[num_rates, num_judged]`."""
        prob = self.prob if volume is None else self.prob * volume
        return (prob.argmax(dim=2) == self.y) & (self.prob.sum(dim=2) > 0)


def deal_labels(task: LabelTask, rate: float, with_single: bool = False) -> Tensor | None:
    r"""Deals the labels of every class into parts, of shape :obj:`[num_nodes]`; :obj:`-1` for nodes that have no label
    or the only one of their class, which is never judged.

    They are dealt in the order of the evidence that they get from a diffusion, so that neither the order of the nodes
    nor that of the classes matters.

    Args:
        task (LabelTask): The graph and its labels, exclusive classes.
        rate (float): The screening rate :math:`x` of the diffusion.
        with_single (bool, optional): Whether the only label of a class is judged as well, which makes sense where
            evidence speaks for its class too; labels are then dealt from all classes together.
            (default: :obj:`False`)

    Returns:
        torch.Tensor, optional: :obj:`None` where no class has two labels (or there are not two at all), or no node is
        unlabelled.
    """
    free, count = task.graph.communicator.sum((~task.labelled).sum()), task.positive_count
    if int(count.sum() if with_single else count.max()) < 2 or int(free) == 0:
        return None
    return _deal(task, loose_resolvent(task.graph, task.sources, 1 / (1 + rate), _TOL), with_single)


def leave_out(task: LabelTask, rates: Sequence[float], part: Tensor) -> HeldOut:
    r"""Leaves every part of the labels out once and diffuses the others, at all rates together.

    Args:
        task (LabelTask): The graph and its labels, exclusive classes.
        rates (sequence): The screening rates :math:`x` of the diffusions.
        part (torch.Tensor): See :func:`deal_labels`.
    """
    communicator, num_classes = task.graph.communicator, task.num_classes
    free, judged, source = ~task.labelled, part >= 0, task.sources
    root = task.graph.degree.sqrt()
    held = torch.zeros(len(rates), int(judged.sum()), num_classes, dtype=torch.float64, device=source.device)
    counts = torch.zeros(len(rates), num_classes, dtype=torch.float64, device=source.device)
    numbers = communicator.union(part[judged]).tolist()
    together = max(1, min(_COLUMNS // num_classes, _NUMBERS // (task.graph.total_nodes * num_classes)))
    for begin in range(0, len(numbers), together):
        group = numbers[begin : begin + together]
        rest = torch.cat([source * (part != number).unsqueeze(1) for number in group], dim=1)
        diffused = loose_resolvents(task.graph, rest, [1 / (1 + rate) for rate in rates], _TOL)
        for place, whole in enumerate(diffused):
            reached = [(x[part == number] != 0).any(dim=1) for number, x in _by_part(whole, group, num_classes)]
            mass = communicator.sum(weighted_sum(root, whole.clamp_(min=0))).view(len(group), num_classes)
            scale = 1 / (num_classes * torch.where(mass > 0, mass, 1.0))
            won = communicator.sum(_winners(whole, free, scale.to(whole.dtype)))
            for (number, x), alive, factor, found in zip(
                _by_part(whole, group, num_classes), reached, scale, won, strict=True
            ):
                left = part == number
                share = row_shares(x[left].double() * factor, multi_label=False)
                held[place, left[judged]] = share * alive.unsqueeze(1)
                total = communicator.sum(left.sum().double().view(1))
                counts[place] += total * found / found.sum().clamp(min=1)
    soft = torch.stack([communicator.gather(prob.reshape(-1))[0].view(-1, num_classes) for prob in held])
    y = communicator.gather(task.y[judged])[0]
    return HeldOut(tuple(rates), soft, y, counts / counts.sum(dim=1, keepdim=True).clamp(min=1))


def _by_part(whole: Tensor, group: Sequence[int], num_classes: int) -> list[tuple[int, Tensor]]:
    """The numbers of some parts, and the columns of each."""
    return list(zip(group, whole.split(num_classes, dim=1), strict=True))


def _winners(whole: Tensor, free: Tensor, scale: Tensor) -> Tensor:
    """How many free nodes have their largest :math:`s x` in every class, for diffusions that stand beside each other,
    in double precision, of the shape of ``scale``, :obj:`[num_parts, num_classes]`; nodes that a diffusion does not
    reach have none."""
    if not whole.numel() or whole.device.type != "cpu" or not available("numba"):
        found = []
        for x, factor in zip(whole.split(scale.size(1), dim=1), scale, strict=True):
            winner = (x * factor).argmax(dim=1)[free & (x != 0).any(dim=1)]
            found.append(torch.bincount(winner, minlength=scale.size(1)).double())
        return torch.stack(found)
    from tg_crepe.inference.winner_kernel import count_winners

    ranges, arrays = row_ranges(*whole.shape), (whole.numpy(), free.numpy(), scale.numpy())
    count = np.zeros((len(ranges), *scale.shape))
    for_each_chunk(lambda chunk: count_winners(*ranges[chunk], *arrays, count[chunk]), len(ranges))
    return torch.from_numpy(count.sum(axis=0))


def judge_parts(
    task: LabelTask, part: Tensor, opinions: Callable[[LabelTask, Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    r"""What opinions say of labels that they do not know.

    Parts are left out one after the other until a hundred labels have been judged: they tell as much as is asked of
    them.

    Args:
        task (LabelTask): The graph and its labels, exclusive classes.
        part (torch.Tensor): See :func:`deal_labels`.
        opinions (callable): From a task with the other labels, and a mask of the nodes whose labels were left out, to
            opinions of these nodes, of shape :obj:`[num_opinions, num_left, num_classes]`.

    Returns:
        The opinions of the judged labels, in double precision, of shape
        :obj:`[num_opinions, num_judged, num_classes]`, and their classes, of shape :obj:`[num_judged]`.
    """
    communicator, found, classes, judged = task.graph.communicator, [], [], 0
    for number in communicator.union(part[part >= 0]).tolist():
        if judged >= _ENOUGH:
            break
        left = part == number
        opinion = opinions(task.without(left), left).double().transpose(0, 1)
        numbers = communicator.gather(opinion.reshape(-1))[0]
        found.append(numbers.view(-1, *opinion.shape[1:]).transpose(0, 1))
        classes.append(communicator.gather(task.y[left])[0])
        judged += classes[-1].numel()
    return torch.cat(found, dim=1), torch.cat(classes)


def _deal(task: LabelTask, evidence: Tensor, with_single: bool) -> Tensor:
    """The part of every labelled node, round and round in the order of the evidence for its class; -1 for nodes that
    have no label or, unless ``with_single``, the only one of their class."""
    communicator, own, count = task.graph.communicator, task.labelled.nonzero().view(-1), task.positive_count
    y = task.y[own]
    value, begin = communicator.gather(evidence[own, y].double())
    group = communicator.gather(y)[0]
    order = value.argsort(stable=True)
    # One class after the other; where they are dealt together, in an order that does not depend on their numbers.
    mean = torch.zeros_like(count, dtype=value.dtype).index_add_(0, group, value) / count.clamp(min=1)
    rank = mean.argsort(stable=True).argsort() if with_single else torch.arange(count.numel(), device=count.device)
    order = order[rank[group[order]].argsort(stable=True)]
    before = count.cumsum(0) - count
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    dealt = place % FOLDS if with_single else torch.where(count[group] > 1, (place - before[group]) % FOLDS, -1)
    part = torch.full_like(task.y, -1)
    part[own] = dealt[begin : begin + len(own)]
    return part
