"""A network's probabilities as evidence on a graph: diffused, and pooled with an energy as far as labels trust each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tg_crepe.graph.canonical import CanonicalGraph
from tg_crepe.graph.reductions import safe_divide
from tg_crepe.inference.pool import log_opinion, trust_opinions
from tg_crepe.solvers.resolvent import resolvent

#: About how many labels it takes to move an exponent from what it is without any. The fewer the better: labels that
#: were left out know how sure each opinion may be, and an exponent that is held back leaves the word to the other.
_LABELS = 0.1

#: The residual of a diffusion.
_TOL = 1e-4


def diffuse_evidence(prob: Tensor, y: Tensor, mask: Tensor, graph: CanonicalGraph, alpha: float) -> Tensor:
    r"""What a network says of the nodes around, as in the smoothing of `Correct-and-Smooth
    <https://arxiv.org/abs/2010.13993>`_.

    .. math::
        F = (1 - \alpha) (I - \alpha S)^{-1} P, \qquad S = D^{-1/2} W D^{-1/2},

    where :math:`P` are the network's probabilities, and the labels where they are known. A node without edges keeps its
    row. Unlike a label, evidence is everywhere: no node is out of its reach.

    Args:
        prob (torch.Tensor): The probabilities, of shape :obj:`[num_nodes, num_classes]`.
        y (torch.Tensor): Classes, of shape :obj:`[num_nodes]`.
        mask (torch.Tensor): Which are known, bool of shape :obj:`[num_nodes]`.
        graph (CanonicalGraph): The graph.
        alpha (float): :math:`\alpha \in [0, 1)`.

    Returns:
        torch.Tensor: Rows that sum to one, in double precision, of shape :obj:`[num_nodes, num_classes]`.
    """
    num_classes = prob.size(1)
    known = F.one_hot(torch.where(mask, y, 0), num_classes).double()
    answer = torch.where(mask.unsqueeze(1), known, prob.double())
    inside = graph.degree > 0
    if alpha > 0 and bool(inside.any()):
        part = graph.subgraph(inside)
        source = answer[inside].to(part.edge_weight.dtype)
        found = resolvent(part, source, alpha, _TOL).x.double().clamp(min=0)
        answer[inside] = safe_divide(found, found.sum(dim=1, keepdim=True), 1 / num_classes)
    return answer


@dataclass(frozen=True)
class EvidencePool:
    r"""How far opinions of the same nodes are trusted, from labels that none of them knew.

    Args:
        trust (torch.Tensor): The exponents of the opinions, see :func:`~tg_crepe.inference.pool.trust_opinions`, of
            shape :obj:`[num_opinions]`.
    """

    trust: Tensor

    @classmethod
    def fit(cls, opinions: Tensor, y: Tensor) -> EvidencePool:
        r"""Fits the trust to labels.

        The last opinion has heard the others, as an energy whose evidence they are: without labels it has the word
        alone, for a product would count the others twice.

        Args:
            opinions (torch.Tensor): What each says of labels that were left out, of shape
                :obj:`[num_opinions, num_judged, num_classes]`.
            y (torch.Tensor): Their classes, of shape :obj:`[num_judged]`.
        """
        worth = torch.ones(y.numel(), dtype=torch.float64, device=y.device)
        expected = [0.0] * (opinions.size(0) - 1) + [1.0]
        return cls(trust_opinions(log_opinion(opinions.double()), y, worth, expected, [_LABELS] * len(expected)))

    def __call__(self, opinions: Tensor) -> Tensor:
        """The pooled probabilities, in double precision, of shape :obj:`[num_nodes, num_classes]`.

        Args:
            opinions (torch.Tensor): Of shape :obj:`[num_opinions, num_nodes, num_classes]`.
        """
        return torch.softmax(torch.tensordot(self.trust, log_opinion(opinions.double()), 1), dim=1)
