from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tg_crepe.active.loop import LabelLoop
from tg_crepe.typing import Adjacency

#: Chooses nodes by itself instead of the loop.
Choose = Callable[[LabelLoop, int], Tensor]


def error_curve(
    truth: Tensor,
    edge_index: Adjacency,
    mask: Tensor,
    edge_weight: Tensor | None = None,
    rounds: int = 10,
    batch: int = 10,
    choose: Choose | None = None,
    **options: object,
) -> list[tuple[int, float]]:
    r"""Plays the loop with known answers: the error in per cent after every round.

    .. code-block:: python

        ours = error_curve(y, edge_index, mask, edge_weight)
        chance = error_curve(y, edge_index, mask, edge_weight, strategy="random")

    Args:
        truth (torch.Tensor): The true classes, of shape :obj:`[num_nodes]`, or findings
            :obj:`[num_nodes, num_classes]`; the model sees those that were asked for alone.
        edge_index: The graph.
        mask (torch.Tensor): The nodes that are labelled at the start, bool of shape :obj:`[num_nodes]`.
        edge_weight (torch.Tensor, optional): Weights of shape :obj:`[num_edges]`. (default: :obj:`None`, ones)
        rounds (int, optional): How often labels are asked for. (default: :obj:`10`)
        batch (int, optional): How many at a time. (default: :obj:`10`)
        choose (callable, optional): Another way to choose, given the loop and the number.
            (default: :obj:`None`, the loop's strategy)
        **options: Further arguments of :class:`LabelLoop`.

    Returns:
        The number of labels after every round, and which share in per cent of the nodes that were unlabelled at the
        start is wrong: a label that was asked for counts as right, so that curves of different choices compare.
    """
    options.setdefault("num_classes", None if truth.dim() == 2 else int(truth.max()) + 1)
    loop = LabelLoop(truth, edge_index, mask, edge_weight, **options)  # type: ignore[arg-type]

    def point() -> tuple[int, float]:
        wrong = (loop.result.label != truth).view(len(truth), -1).double().mean(dim=1)
        return int(loop.mask.sum()), 100 * float(wrong[~mask].mean())

    points = [point()]
    for _ in range(rounds):
        nodes = loop.suggest(batch) if choose is None else choose(loop, batch)
        if nodes.numel() == 0:
            break
        loop.answer(nodes, truth[nodes])
        points.append(point())
    return points
