from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tg_crepe.inference.held_out import HeldOut
from tg_crepe.inference.task import LabelTask
from tg_crepe.models.crepe.recipe import Recipe

#: How a user says that labels came about.
SAMPLINGS = ("auto", "random", "chosen")

#: How likely counts that are not all equal are those of a random sample, before the graph is asked.
_RANDOM = 0.9


@dataclass(frozen=True)
class VolumePosterior:
    r"""What is known of the class volumes.

    Args:
        share (torch.Tensor): The volumes to expect, in double precision, of shape :obj:`[num_classes]`.
        low (torch.Tensor): The least volumes that labels may have before they are brought back.
        high (torch.Tensor): The largest.
    """

    share: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def given(cls, share: Tensor) -> VolumePosterior:
        """Volumes that are known."""
        return cls(share, share, share)


def estimate_volume(
    task: LabelTask, random: float, found: Callable[[Tensor], Tensor], error: float, recipe: Recipe
) -> VolumePosterior:
    r"""The class volumes from the counts of the labels and from what a diffusion finds.

    The counts are a Dirichlet distribution, worth :math:`A_0 = \sum_l (c + r m_l)` labels for the probability :math:`r`
    that labels were drawn at random and :math:`c` labels of every class that are imagined. What is found adds as many
    labels as its own error leaves it,

    .. math::
        \pi_l^0 = \frac{c + r m_l}{A_0}, \qquad
        \pi_l = \frac{A_0 \pi_l^0 + L \hat\pi_l / \sigma^2}{A_0 + L / \sigma^2}, \qquad
        \sigma^2 = e^2 \left( \frac{1}{2} + \frac{2}{p} \right),

    for a diffusion that is wrong about a share :math:`e` of the labels that were left out, and :math:`p` labels per
    class: volumes are found to within about :math:`\sigma` of themselves. Many data have classes of about equal size,
    though, which has the odds

    .. math::
        \log \frac{s}{1 - s} = \frac{L - 1}{2} \log \frac{\sigma^2 + 1/c}{\sigma^2} - \frac{1}{2} \left(
        \frac{1}{\sigma^2} - \frac{1}{\sigma^2 + 1/c} \right) \sum_l \delta_l^2, \qquad \delta_l = L \hat\pi_l - 1,

    plus what counts that were drawn at random say. The volumes to expect are :math:`s/L + (1-s) \pi_l`. Labels are
    brought back from where they have less or more than

    .. math::
        \frac{s}{L} \left( 1 \mp \frac{p}{50} \right) + (1 - s) \left( r \left( \pi_l \mp
        \sqrt{\frac{\pi_l^0 (1 - \pi_l^0)}{A_0 + 1}} \right) + (1 - r)\, \hat\pi_l\, 2^{\mp 1} \right).

    Where one label stands for a class of several clusters, equal volumes are all that keeps it from losing them; with
    many labels the scores know better. The numbers are those of the default recipe.

    Args:
        task (LabelTask): The labels, exclusive classes.
        random (float): :math:`r`, see :func:`random_sample`.
        found (callable): :math:`\hat\pi`, from class masses, from and to the shape :obj:`[num_classes]`.
        error (float): :math:`e`, the mean over the classes.
        recipe (Recipe): The constants.
    """
    classes, imagined = task.num_classes, max(recipe.pseudo_count, 1e-6)
    counts = random * task.positive_count.double()
    total = float((counts + imagined).sum())
    counted = (counts + imagined) / total
    size = error**2 * (recipe.volume_error + recipe.volume_scatter / labels_per_class(task))
    seen = found(counted)
    equal = _equal_odds(counts, seen, size, imagined)
    worth = classes / size
    share = (total * counted + worth * seen) / (total + worth)
    drawn = (counted * (1 - counted) / (total + 1)).sqrt()
    width = labels_per_class(task) / recipe.binding_labels

    def bound(side: int) -> Tensor:
        unequal = random * (share + side * drawn) + (1 - random) * seen * 2.0**side
        return (equal * (1 + side * width) / classes + (1 - equal) * unequal).clamp(0, 1)

    return VolumePosterior(equal / classes + (1 - equal) * share, bound(-1), bound(1))


def _equal_odds(counts: Tensor, found: Tensor, size: float, imagined: float) -> float:
    """The probability that classes are of equal size, one half before counts and found volumes are seen."""
    classes, prior = found.numel(), 1 / imagined
    off = float((classes * found - 1).square().sum())
    odds = 0.5 * ((classes - 1) * math.log1p(prior / size) - off * (1 / size - 1 / (size + prior)))
    # A multinomial distribution of the counts against a Dirichlet mixture of them.
    alike = torch.full_like(counts, imagined)
    mixed = torch.lgamma(alike.sum()) - torch.lgamma(alike.sum() + counts.sum())
    mixed = mixed + (torch.lgamma(alike + counts) - torch.lgamma(alike)).sum()
    odds += float(-counts.sum() * math.log(classes) - mixed)
    return float(torch.sigmoid(torch.tensor(odds, dtype=torch.float64)))


def random_sample(task: LabelTask, held: HeldOut | None, sampling: str) -> float:
    r"""The probability that the labels are a random sample of the nodes, so that their counts tell the class volumes.

    Counts that are all equal were chosen. Others are asked for on the graph: if the labels are a random sample, what is
    *predicted* for those that were left out is spread over the classes as what is predicted for unlabelled nodes,
    whatever the predictor is worth (`"Detecting and Correcting for Label Shift with Black Box Predictors"
    <https://arxiv.org/abs/1802.03916>`_). With :math:`h_l` of :math:`h` left-out labels predicted as :math:`l` and
    :math:`q_l` the share of the unlabelled nodes predicted so,

    .. math::
        \frac{r}{1 - r} = 9\, \frac{\mathrm{Mult}(h_1, \dots, h_L \mid q)}{\binom{h + L - 1}{L - 1}^{-1}},

    against the alternative that all counts are equally likely.

    Args:
        task (LabelTask): The labels, exclusive classes.
        held (HeldOut, optional): Labels that were left out, at one rate.
        sampling (str): :obj:`"random"`, :obj:`"chosen"` or :obj:`"auto"`.
    """
    count = task.positive_count
    if sampling != "auto":
        return float(sampling == "random")
    if int(count.max()) == int(count.min()):
        return 0.0
    odds = math.log(_RANDOM / (1 - _RANDOM))
    if held is not None:
        reached = held.prob[0].sum(dim=1) > 0
        guess = torch.bincount(held.prob[0][reached].argmax(dim=1), minlength=task.num_classes).double()
        free = task.graph.total_nodes - int(count.sum())
        share = (held.found[0] * free + 0.5) / (free + 0.5 * task.num_classes)  # no share is known to be zero
        total, other = guess.sum(), guess.new_tensor(float(task.num_classes))
        arranged = torch.lgamma(total + 1) - torch.lgamma(guess + 1).sum()
        compositions = torch.lgamma(total + other) - torch.lgamma(other) - torch.lgamma(total + 1)
        odds += float(arranged + (guess * share.log()).sum() + compositions)
    return float(torch.sigmoid(torch.tensor(odds, dtype=torch.float64)))


def labels_per_class(task: LabelTask) -> float:
    """The mean number p of labels per class."""
    return float(task.positive_count.sum()) / task.num_classes
