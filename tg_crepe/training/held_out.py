from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tg_crepe.inference.soft_labels import certainty, match_confidence

#: What the halves are drawn from, beside the seed.
_KIND = 3


@dataclass(frozen=True)
class HeldOutCount:
    r"""How many labelled images a network that never saw their label got wrong.

    Args:
        wrong (int): Pseudo-labels that are not the label.
        judged (int): All that were compared.
    """

    wrong: int
    judged: int

    @property
    def error(self) -> float:
        r"""The share of wrong ones, :math:`(\text{wrong} + 1) / (\text{judged} + 2)`: a handful proves nothing."""
        return (self.wrong + 1) / (self.judged + 2)

    def __add__(self, other: HeldOutCount) -> HeldOutCount:
        return HeldOutCount(self.wrong + other.wrong, self.judged + other.judged)


def halve_labels(y: Tensor, train_mask: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    r"""Two halves of the labelled images, drawn class by class; the only label of a class is in both.

    Args:
        y (torch.Tensor): Classes, long of shape :obj:`[num_images]`.
        train_mask (torch.Tensor): Which images are labelled, bool of shape :obj:`[num_images]`.
        seed (int): The seed of the run.

    Returns:
        Two masks like ``train_mask``.
    """
    state = np.random.SeedSequence([seed, _KIND]).generate_state(1, np.uint64)
    generator = torch.Generator().manual_seed(int(state[0]) >> 1)
    first, second = torch.zeros_like(train_mask), torch.zeros_like(train_mask)
    odd = 0  # the larger part of an odd class goes to either half in turn
    for label in y[train_mask].unique():
        own = (train_mask & (y == label)).nonzero().view(-1)
        if len(own) == 1:
            first[own] = second[own] = True
            continue
        own = own[torch.randperm(len(own), generator=generator)]
        size = (len(own) + odd) // 2
        odd = (odd + len(own)) % 2
        first[own[:size]] = True
        second[own[size:]] = True
    return first, second


def count_wrong(pseudo_y: Tensor, y: Tensor, judged: Tensor) -> HeldOutCount:
    """How many of the ``judged`` images have a pseudo-label that is not their label; none (-1) is wrong too."""
    return HeldOutCount(int((pseudo_y != y)[judged].sum()), int(judged.sum()))


def temper(data: Data, held_out: HeldOutCount) -> None:
    r"""Makes the pseudo-labels of ``data`` as sure as labels say that no network has seen.

    .. math::
        \mathbf{p}_i \leftarrow \mathrm{softmax}(c \log \mathbf{p}_i), \qquad
        \frac{1}{|\mathcal{U}|} \sum_{i \in \mathcal{U}} \max_l p_i^l = 1 - \sqrt{e_0\, e_h},

    where :math:`\mathcal{U}` are the images with a pseudo-label, :math:`e_0` is one minus their mean confidence so far,
    at least :math:`1/(m+2)` for :math:`m` judged labels, and :math:`e_h` the error of networks that know half of the
    labels. :math:`e_0` tends to be too low, since it looks at features that were trained on all labels, and
    :math:`e_h` too high, since its networks know half of them and never learned from pseudo-labels; the geometric mean
    lies between. The class of an image stays what it is.

    Args:
        data (Data): :obj:`pseudo_prob`, :obj:`certainty` and :obj:`pseudo_mask`; the first two are changed.
        held_out (HeldOutCount): The judgement.
    """
    chosen = data.pseudo_mask
    prob = data.pseudo_prob[chosen].double()
    if prob.size(0) == 0:
        return
    own = max(1 - float(prob.amax(dim=1).mean()), 1 / (held_out.judged + 2))
    error = math.sqrt(own * held_out.error)
    log = prob.clamp(min=torch.finfo(torch.float32).tiny).log()
    prob = torch.softmax(match_confidence(log, 1 - error) * log, dim=1)
    data.pseudo_prob[chosen] = prob.to(data.pseudo_prob.dtype)
    data.certainty[chosen] = certainty(prob, multi_label=False).to(data.certainty.dtype)
