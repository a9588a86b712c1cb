from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.prepare import PreparedGraph
from tg_crepe.graph.spectrum import smallest_eigenpairs

#: Modes of the graph that are looked at, and the variance of a label's own noise.
MODES, _NOISE = 100, 0.01

#: Nodes among which the choice goes on after the first: those that were best before it.
_SHORTLIST = 4000


class VarianceReduction:
    r"""Chooses nodes whose labels reduce the variance of what is not known the most, where there is doubt.

    A function on the graph is taken for a Gaussian field in the :math:`m` smoothest modes :math:`V` of
    :math:`I - D^{-1/2} W D^{-1/2}`, with the covariance :math:`V A V^\top`, :math:`A = \Lambda^{-1}` before any label.
    A label of node :math:`i` leaves :math:`A - A v_i v_i^\top A / (\sigma^2 + v_i^\top A v_i)`, which lowers the
    variance of all nodes together, each counting its value, by

    .. math::
        \frac{\sum_j \text{value}_j (v_j^\top A v_i)^2}{\sigma^2 + v_i^\top A v_i}
        = \frac{v_i^\top A M A v_i}{\sigma^2 + v_i^\top A v_i}, \qquad
        M = V^\top \operatorname{diag}(\text{value}) V .

    With the value one it is V-optimality (`Ji and Han 2012 <https://proceedings.mlr.press/v22/ji12.html>`_), which
    looks at no label; :func:`doubt_value` goes on from there to what is in doubt.

    Args:
        values (torch.Tensor): The eigenvalues, of shape :obj:`[num_modes]`.
        vectors (torch.Tensor): The modes, of shape :obj:`[num_nodes, num_modes]`.
    """

    def __init__(self, values: Tensor, vectors: Tensor) -> None:
        self.vectors = vectors.double()
        # The mean of a component is not known at all; a number instead of infinity.
        self._prior = torch.diag(1 / values.double().clamp(min=1e-11))

    @classmethod
    def of_graph(cls, graph: CanonicalGraph, modes: int = MODES) -> VarianceReduction:
        """The rule for a graph; a graph that is prepared keeps it. A node without an edge is in no mode."""
        kept = graph.__dict__.get("_variance")
        if kept is not None and kept[0] == modes:
            rule: VarianceReduction = kept[1]
            return rule
        inside = graph.degree > 0
        part = graph if bool(inside.all()) else graph.subgraph(inside)
        values, vectors = smallest_eigenpairs(part, max(min(modes, part.num_nodes - 1), 0))
        if part is not graph:
            all_vectors = vectors.new_zeros(graph.num_nodes, vectors.size(1))
            all_vectors[inside] = vectors
            vectors = all_vectors
        found = cls(values, vectors)
        if isinstance(graph, PreparedGraph):
            graph.__dict__["_variance"] = (modes, found)
        return found

    def choose(self, value: Tensor, labelled: Iterable[int], candidate: Tensor, n: int) -> Tensor:
        r"""The nodes to label next, in the order of their choice.

        What is largest is the reduction times the node's own value: a node in the middle of a doubtful region is asked
        before a certain one beside it that would tell as much.

        Args:
            value (torch.Tensor): What the variance of a node counts, not negative, of shape :obj:`[num_nodes]`.
            labelled (iterable of int): The nodes that have labels.
            candidate (torch.Tensor): The nodes that may be chosen, bool of shape :obj:`[num_nodes]`.
            n (int): How many, at most the number of candidates.

        Returns:
            torch.Tensor: Of shape :obj:`[n]`.
        """
        vectors = self.vectors
        covariance = self._prior
        for node in labelled:
            covariance = _known(covariance, vectors[node])
        weight = vectors.T @ (value.double().unsqueeze(1) * vectors)
        nodes = candidate.nonzero().view(-1)
        first = value[nodes] * _reduction(vectors[nodes], covariance, weight)
        nodes = nodes[first.topk(min(len(nodes), max(_SHORTLIST, n))).indices.sort().values]
        chosen: list[int] = []
        free = torch.ones(len(nodes), dtype=torch.bool, device=nodes.device)
        for _ in range(n):
            gain = (value[nodes] * _reduction(vectors[nodes], covariance, weight)).masked_fill(~free, -torch.inf)
            place = int(gain.argmax())
            free[place] = False
            chosen.append(int(nodes[place]))
            covariance = _known(covariance, vectors[chosen[-1]])
        return torch.tensor(chosen, dtype=torch.long, device=candidate.device)


def doubt_value(doubt: Tensor, candidate: Tensor, counts: Tensor) -> Tensor:
    r"""What the variance of unlabelled nodes counts:

    .. math::
        \text{value}_j = (1 - m)\, \hat d_j + m^2, \qquad \hat d_j = g + (1 - g)\, \text{doubt}_j, \qquad
        m = \frac{1}{n'} \sum_k \hat d_k, \qquad g = \frac{f_1 + 1}{n + 1},

    where the mean is over the :math:`n'` unlabelled nodes, :math:`n` is the number of labels and :math:`f_1` that of
    the classes with one label. A model does not doubt what it has never seen: :math:`g` is the share of nodes whose
    class has no label yet as Good and Turing estimate it, with a label to come that is new. Of the whole value,
    :math:`n' m`, the share :math:`m` is spread equally and the rest by doubt: the more doubt there is, the less it says
    where to ask. So it is V-optimality at first, and little doubt is asked for where it is.

    Args:
        doubt (torch.Tensor): Between 0 and 1, of shape :obj:`[num_nodes]`.
        candidate (torch.Tensor): The nodes without a label, bool of shape :obj:`[num_nodes]`; others have the value 0.
        counts (torch.Tensor): The number of labels of every class, of shape :obj:`[num_classes]`.
    """
    unseen = (int((counts == 1).sum()) + 1) / (int(counts.sum()) + 1)
    known = unseen + (1 - unseen) * doubt.double()
    mean = known[candidate].mean()
    return ((1 - mean) * known + mean.square()).where(candidate, 0.0)


def _known(covariance: Tensor, mode: Tensor) -> Tensor:
    """The covariance of the modes when the value of a node is known."""
    along = covariance @ mode
    return covariance - torch.outer(along, along) / (_NOISE + mode @ along)


def _reduction(rows: Tensor, covariance: Tensor, weight: Tensor) -> Tensor:
    """By how much the weighted variance falls, for every row."""
    gain = ((rows @ (covariance @ weight @ covariance)) * rows).sum(dim=1)
    return gain / (_NOISE + ((rows @ covariance) * rows).sum(dim=1))
