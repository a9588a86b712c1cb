from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from tg_crepe._optional import require
from tg_crepe.inference.soft_labels import match_confidence
from tg_crepe.training.alignment import set_soft_labels
from tg_crepe.training.callbacks.base import Callback
from tg_crepe.training.sampler import generator_of

if TYPE_CHECKING:
    from tg_crepe.training.trainer import HybridTrainer

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


class HoldOut(Callback):
    r"""Asks two networks of half the labels each how sure pseudo-labels may be, and tempers these accordingly.

    They begin with the first weights of the whole network and take as many steps as its warm-up, within which their
    learning rate falls to 0: they will learn nothing more. Each is judged on the other half.

    Args:
        network (torch.nn.Module): The network before any training; it is copied.
        guards (sequence of Callback): The callbacks that watch over the halves too.
    """

    def __init__(self, network: nn.Module, guards: Sequence[Callback]) -> None:
        self._untrained: nn.Module | None = copy.deepcopy(network)
        self._guards = guards
        self.count: HeldOutCount | None = None

    def on_labels_begin(self, trainer: HybridTrainer) -> None:
        """Asks the halves, once."""
        if self.count is None:
            with trainer.timed("network"):
                self.count = self._ask_halves(trainer)
            self._untrained = None

    def on_labels_end(self, trainer: HybridTrainer) -> None:
        """Tempers the new pseudo-labels."""
        assert self.count is not None
        temper(trainer.data, self.count)

    def state_dict(self) -> dict[str, Any]:
        """The judgement, or the network that the halves are to begin with."""
        return {
            "count": None if self.count is None else [self.count.wrong, self.count.judged],
            "untrained": None if self._untrained is None else self._untrained.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes both up."""
        self.count = None if state["count"] is None else HeldOutCount(*state["count"])
        if self._untrained is not None and state["untrained"] is not None:  # a network of the user's may be trained
            self._untrained.load_state_dict(state["untrained"])

    def _ask_halves(self, trainer: HybridTrainer) -> HeldOutCount:
        """What the networks of the halves say of the labels that they do not know."""
        data, settings = trainer.data, trainer.config
        passes = 2 * settings.warmup_passes
        config = replace(settings, epochs=settings.warmup_epochs, warmup_passes=passes, hold_out=False)
        unseen = replace(trainer.dataset, test=trainer.dataset.test[:0])
        # One of their own, so that the user's accelerator does not keep their networks, nor they its loss scale.
        precision = trainer.accelerator.mixed_precision
        accelerator = require("accelerate", extra="train").Accelerator(mixed_precision=precision)
        halves = halve_labels(data.y, data.train_mask, settings.seed)
        count = HeldOutCount(0, 0)
        assert self._untrained is not None
        for known, other in (halves, halves[::-1]):
            network = copy.deepcopy(self._untrained)
            half = type(trainer)(unseen, known, network, trainer.source, config, accelerator=accelerator)
            half.checkpoint = trainer.checkpoint  # what can go on after an interrupt, or after a loss that is no number
            half.callbacks = list(self._guards)
            for _ in range(config.epochs):
                half.run_epoch()
            half.label_images()
            count += count_wrong(half.data.pseudo_y, data.y, other & ~known)
        return count


def halve_labels(y: Tensor, train_mask: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    r"""Two halves of the labelled images, drawn class by class; the only label of a class is in both.

    Args:
        y (torch.Tensor): Classes, long of shape :obj:`[num_images]`.
        train_mask (torch.Tensor): Which images are labelled, bool of shape :obj:`[num_images]`.
        seed (int): The seed of the run.

    Returns:
        Two masks like ``train_mask``.
    """
    generator = generator_of(seed, _KIND)
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
        data (Data): :obj:`pseudo_prob`, :obj:`certainty` and :obj:`pseudo_mask`; the first two are replaced.
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
    set_soft_labels(data, prob)
