"""Nodes shared out among classes of given sizes with the largest total score: the offsets of the classes that do it."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from tg_crepe.graph.communicator import Communicator
from tg_crepe.graph.reductions import plain_sum

#: The first temperature in mean distances of a score from the best of its node, and the factor from one to the next.
#: Warmer, soft labels are further off than the start is; with a larger factor Newton's method begins too far away.
#: After so many factors in vain all labels are as hard as they get, and only ties or gaps are left.
_WARM, _COOLING, _IN_VAIN = 1 / 16, 4.0, 2

#: Steps of Newton's method at most (scores of models took up to 20), and the share of Newton's equation that is left
#: to the next step: the temperature changes before more would pay. A step is not shortened to its cube or less.
_STEPS, _SLACK = 50, 0.1

#: How far a step of Newton's method may go, in mean distances of a score from the largest of its node: farther away all
#: nodes are in one class, and there is no curvature to come back by.
_REACH = 2.0


def smooth_offsets(score: Tensor, number: Tensor, offset: Tensor, communicator: Communicator) -> Tensor:
    r"""Offsets near the minimum of :math:`f(\mathbf{b}) = \sum_i \max_l (s_i^l + b_l) - \sum_l b_l n_l`, all at once.

    .. math::
        f_\tau(\mathbf{b}) = \tau \sum_i \log \sum_l e^{(s_i^l + b_l) / \tau} - \sum_l b_l n_l, \qquad
        \nabla f_\tau = \sum_i p_i - n, \qquad
        \nabla^2 f_\tau = \frac{1}{\tau} \sum_i \left( \mathrm{diag}(p_i) - p_i p_i^\top \right)

    with :math:`p_i` the softmax of row :math:`i`. Newton's method follows the minimum while :math:`\tau` falls, by
    conjugate gradients: a product with the Hessian costs no more than the gradient, however many classes there are. It
    ends when no more nodes are in a wrong class than there are classes; :func:`move_nodes` is quicker from there.

    Args:
        score (torch.Tensor): The scores that this process holds, of shape :obj:`[num_classes, num_nodes]`.
        number (torch.Tensor): :math:`n_l`, whole numbers > 0 that add up to the nodes of all processes.
        offset (torch.Tensor): Where to start.
        communicator (Communicator): What connects the processes.

    Returns:
        torch.Tensor: The offsets with the fewest nodes too many, of those that were met.
    """
    shifted = score + offset.unsqueeze(-1)
    below = float(plain_sum(shifted.amax(dim=0) - shifted, communicator)) / (score.size(0) * int(number.sum()))
    tau = _WARM * below
    best, fewest, cooled, stuck = offset, torch.inf, 0, False
    point = _SmoothPoint(score, number, offset, tau, communicator)
    for _ in range(_STEPS):
        if point.surplus < fewest:
            best, fewest, cooled = offset, point.surplus, 0
        if fewest <= number.numel() or cooled > _IN_VAIN:
            break
        # Nearer to the minimum than the hard labels are to the soft ones: there is nothing more to learn here.
        if stuck or float(point.gradient.abs().sum()) < point.surplus:
            tau, cooled = tau / _COOLING, cooled + 1
            point = _SmoothPoint(score, number, offset, tau, communicator)
        direction = point.newton_direction()
        direction = direction * min(1.0, _REACH * below / max(float(direction.abs().max()), 1e-300))
        slope, step, stuck = float(point.gradient @ direction), 1.0, True
        # The function is convex: where it rises half as steeply as it fell at the start, the step went too far.
        while stuck and slope < 0 and step > _SLACK**3:
            trial = _SmoothPoint(score, number, offset + step * direction, tau, communicator)
            end = float(trial.gradient @ direction)
            if end <= -slope / 2:
                offset, point, stuck = offset + step * direction, trial, False
            else:
                step *= max(_SLACK, slope / (slope - end))
    return best


class _SmoothPoint:
    """Gradient and curvature of the smooth problem at given offsets; single precision is enough on the way."""

    def __init__(self, score: Tensor, number: Tensor, offset: Tensor, tau: float, communicator: Communicator) -> None:
        shifted = score + offset.unsqueeze(-1)
        top = shifted.amax(dim=0)
        hard = (shifted == top).sum(dim=1).double()
        prob = shifted.sub_(top).float().div_(tau).exp_()
        self._prob = prob.div_(prob.sum(dim=0))
        self._mass, hard = communicator.sums(self._prob.sum(dim=1).double(), hard)
        self._tau, self._communicator = tau, communicator
        self.gradient = self._mass - number
        self.surplus = float((hard - number).clamp(min=0).sum())

    def newton_direction(self) -> Tensor:
        """An approximate solution of Newton's equation by conjugate gradients, each class scaled by its curvature."""
        diagonal = self._mass - self._communicator.sum(self._prob.square().sum(dim=1).double())
        diagonal = diagonal.clamp(min=torch.finfo(torch.float32).tiny)
        direction, residual = torch.zeros_like(self.gradient), -self.gradient
        scaled = residual / diagonal
        search, size = scaled, float(residual @ scaled)
        enough = _SLACK**2 * size
        for _ in range(len(residual)):
            product = self._multiply(search)
            curvature = float(search @ product)
            if not curvature > 0:  # the rest is rounding
                break
            direction = direction + (size / curvature) * search
            residual = residual - (size / curvature) * product
            scaled = residual / diagonal
            before, size = size, float(residual @ scaled)
            if not size > enough:
                break
            search = scaled + (size / before) * search
        return self._tau * direction

    def _multiply(self, x: Tensor) -> Tensor:
        mean = x.float() @ self._prob
        return self._mass * x - self._communicator.sum((self._prob @ mean).double())


def move_nodes(score: Tensor, number: Tensor, offset: Tensor, limit: int, communicator: Communicator) -> Tensor:
    r"""Offsets with which the largest score gives every class its number of nodes, to the node.

    .. math::
        b_l - b_k < d_{kl} = \min_{i : l_i = k} (s_i^k - s_i^l) \quad \text{for all } k \ne l

    says that every node :math:`i` has its class :math:`l_i`, so offsets are potentials of a graph of the classes with
    lengths :math:`d_{kl}`. From the labels of the given offsets, one node after the other goes from a class with too
    many along the shortest path to one with too few, each class on the path handing on the node that loses least: the
    successive shortest paths of minimum-cost flow, which keep the total score the largest for the numbers at hand. In
    the end :math:`b_l` is the mean distance of :math:`l` from the classes with nodes. It fulfils all inequalities
    strictly unless nodes tie, and does not depend on where the search began.

    Args:
        score (torch.Tensor): As for :func:`smooth_offsets`.
        number (torch.Tensor): As there.
        offset (torch.Tensor): The offsets to start from, with few nodes in a wrong class.
        limit (int): How often nodes are moved at most.
        communicator (Communicator): What connects the processes.

    Returns:
        torch.Tensor: The offsets, of shape :obj:`[num_classes]`.
    """
    classes = _ClassGraph(score, (score + offset.unsqueeze(-1)).argmax(dim=0), communicator)
    surplus = communicator.sum(torch.bincount(classes.label, minlength=number.numel())) - number
    for _ in range(limit):
        if not bool(surplus.any()):
            break
        path, distance = classes.shortest_path(surplus, offset)
        if len(path) < 2:  # scores that are not finite
            break
        offset = offset + distance
        moved = classes.hand_on(path, min(int(surplus[path[0]]), -int(surplus[path[-1]])))
        surplus[path[0]] -= moved
        surplus[path[-1]] += moved
    return offset + classes.mean_distance(offset)


class _ClassGraph:
    """The labels of the nodes, and for every two classes the least that a node of the one loses in the other."""

    def __init__(self, score: Tensor, label: Tensor, communicator: Communicator) -> None:
        self.label = label
        self._score, self._communicator = score, communicator
        num_classes = score.size(0)
        self._loss = score.new_empty(num_classes, num_classes)
        self._look(list(range(num_classes)))

    def _look(self, classes: list[int]) -> None:
        least = self._score.new_full((len(classes), len(self._loss)), torch.inf)
        for row, k in zip(least, classes, strict=True):
            node = (self.label == k).nonzero().view(-1)
            if node.numel():
                held = self._score.index_select(1, node)
                torch.amin(held[k] - held, dim=1, out=row)
            row[k] = 0
        self._loss[classes] = -self._communicator.max(-least)

    def shortest_path(self, surplus: Tensor, offset: Tensor) -> tuple[list[int], Tensor]:
        """The classes on the shortest path from any with too many nodes to any with too few, and all distances up to
        its length."""
        distance = torch.where(surplus > 0, 0.0, torch.inf).to(offset)
        before = torch.full_like(surplus, -1)
        goal = torch.where(surplus < 0, 0.0, torch.inf).to(offset)
        front = surplus > 0
        while bool(front.any()):
            start = front.nonzero().view(-1)
            reached, via = (distance[start].unsqueeze(-1) + self._lengths(start, offset)).min(dim=0)
            nearer = reached < distance
            distance = torch.where(nearer, reached, distance)
            before = torch.where(nearer, start[via], before)
            front = nearer & (distance < (distance + goal).min())  # beyond the nearest goal nothing matters
        end = (distance + goal).min(dim=0)
        path, previous = [int(end.indices)], before.tolist()
        while previous[path[0]] >= 0:
            path.insert(0, previous[path[0]])
        return path, distance.clamp(max=float(end.values))

    def hand_on(self, path: list[int], most: int) -> int:
        """Moves a node along every edge of a path, or as many as tie there, and says how many."""
        edges = list(itertools.pairwise(path))
        tied = [self._losing_least(source, target) for source, target in edges]
        own = torch.tensor([node.numel() for node in tied], device=self.label.device)
        count = self._communicator.gather(own)[0].view(-1, len(edges))  # a row for every process
        amount = min(most, int(count.sum(dim=0).min()))
        before = count[: self._communicator.rank].sum(dim=0).tolist()  # the first processes move theirs first
        for (_, target), node, others in zip(edges, tied, before, strict=True):
            self.label[node[: max(amount - others, 0)]] = target
        self._look(path)
        return amount

    def _losing_least(self, source: int, target: int) -> Tensor:
        node = (self.label == source).nonzero().view(-1)
        return node[self._score[source, node] - self._score[target, node] == self._loss[source, target]]

    def mean_distance(self, offset: Tensor) -> Tensor:
        """The mean distance of every class from the classes that have nodes, by the algorithm of Floyd and Warshall."""
        distance = self._lengths(torch.arange(len(offset), device=offset.device), offset)
        for k in range(len(distance)):
            torch.minimum(distance, distance[:, k : k + 1] + distance[k], out=distance)
        return distance[distance.isfinite().all(dim=1)].mean(dim=0)

    def _lengths(self, start: Tensor, offset: Tensor) -> Tensor:
        """Lengths from some classes as the potentials measure them, which leaves the shortest paths as they are: none
        is negative but for rounding."""
        return (self._loss[start] + offset[start].unsqueeze(-1) - offset).clamp(min=0)
