"""The labels of all items from those of some: what ``tg-crepe propagate`` does, on a graph that is there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tg_crepe.datasets.image_folder import _sorted_classes
from tg_crepe.heads import head_evidence
from tg_crepe.inference.task import ExpectedError
from tg_crepe.label.book import Book
from tg_crepe.label.prepared import Prepared
from tg_crepe.models import CrepePropagation
from tg_crepe.solvers.observers import FlowObserver, FlowState
from tg_crepe.warnings import ConvergenceWarning, GraphWarning


@dataclass(frozen=True)
class Solved:
    r"""What the model says of all items, given the labels up to an act.

    Args:
        act (int): The last act that it knows.
        labels (int): How many labels it knows.
        columns (tuple of int): The classes that have labels, those of the columns of ``prob``.
        label (numpy.ndarray): The class of every item, :obj:`-1` where no label reaches, of shape :obj:`[num_items]`.
        prob (numpy.ndarray): Soft labels, float32 of shape :obj:`[num_items, num_columns]`.
        certainty (numpy.ndarray): Of shape :obj:`[num_items]`.
        labelled (numpy.ndarray): Which items had a label, bool of shape :obj:`[num_items]`.
        expected (ExpectedError, optional): The error that labels which were left out lead to expect.
    """

    act: int
    labels: int
    columns: tuple[int, ...]
    label: np.ndarray
    prob: np.ndarray
    certainty: np.ndarray
    labelled: np.ndarray
    expected: ExpectedError | None

    def guess(self, item: int) -> tuple[int, float] | None:
        """The class that an item is taken for and its probability, or None where no label reaches it."""
        number = int(self.label[item])
        return None if number < 0 else (number, float(self.prob[item, self.columns.index(number)]))


class Outdated(Exception):
    """The labels of a solve have been taken back while it ran."""


class _Watch(FlowObserver):
    """Ends a solve that nobody wants any more."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted

    def on_step(self, state: FlowState) -> None:
        if not self._wanted():
            raise Outdated


def solve_book(
    book: Book, x: np.ndarray, prepared: Prepared, wanted: Callable[[], bool] = lambda: True
) -> Solved | None:
    r"""The labels of all items; :obj:`None` while there are labels of fewer than two classes.

    Args:
        book (Book): The labels.
        x (numpy.ndarray): Features, of shape :obj:`[num_items, num_features]`.
        prepared (Prepared): The graph.
        wanted (callable, optional): Asked between steps whether to go on; else :class:`Outdated` is raised.
    """
    y = book.labels(len(x))
    present = np.unique(y[y >= 0])
    if len(present) < 2:
        return None
    by_name = {book.name(int(number)): int(number) for number in present}
    columns = tuple(by_name[name] for name in _sorted_classes(set(by_name)))  # the order in which propagate has them
    place = np.full(int(present.max()) + 1, -1)
    place[list(columns)] = np.arange(len(columns))
    target = torch.from_numpy(np.where(y >= 0, place[y], -1))
    return _solved(book, x, prepared, target, columns, wanted)


def _solved(
    book: Book, x: np.ndarray, prepared: Prepared, y: torch.Tensor, columns: Sequence[int], wanted: Callable[[], bool]
) -> Solved:
    rows = torch.from_numpy(x)
    rows = rows if rows.dtype in (torch.float32, torch.float64) else rows.float()
    mask = y >= 0
    with warnings.catch_warnings():
        # Items that no label reaches yet, and a head that is not trusted, are the beginning of every session.
        for kind in (GraphWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", kind)
        evidence = head_evidence(rows, y, mask, len(columns), prepared.placement)
        result = CrepePropagation(sampling="chosen").propagate(
            y,
            prepared.graph,
            mask,
            None,
            len(columns),
            observers=(_Watch(wanted),),
            prior=evidence,
            spread_prior=False,
        )
    names = np.array([*columns, -1])
    return Solved(
        act=book.last,
        labels=int(mask.sum()),
        columns=tuple(columns),
        label=names[result.label.numpy()],
        prob=result.prob.float().numpy(),
        certainty=result.certainty.float().numpy(),
        labelled=mask.numpy(),
        expected=result.expected_error,
    )
