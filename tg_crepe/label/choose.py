from __future__ import annotations

from collections import Counter

import torch

from tg_crepe.active.variance import VarianceReduction, doubt_value
from tg_crepe.inference.soft_labels import certainty
from tg_crepe.label.book import Book
from tg_crepe.label.prepared import Prepared
from tg_crepe.label.solve import Solved


class Chooser:
    r"""What to ask next: the items whose labels reduce the variance of the doubtful ones the most.

    Without any label all items count the same: the first questions go to the centres of the graph's clusters.

    Args:
        prepared (Prepared): The graph.
        num_items (int): The number of items.
    """

    def __init__(self, prepared: Prepared, num_items: int) -> None:
        self._prepared, self._num_items = prepared, num_items

    def __call__(self, book: Book, solved: Solved | None, count: int) -> list[int]:
        """The items to ask for, the best first; none of them has an answer."""
        candidate = torch.ones(self._num_items, dtype=torch.bool)
        candidate[list(book.answers)] = False
        count = min(count, int(candidate.sum()))
        if count == 0:
            return []
        labelled = [item for item, answer in book.answers.items() if answer.kind == "class"]
        doubt = torch.ones(self._num_items, dtype=torch.float64)
        if solved is not None:
            doubt = 1 - certainty(torch.from_numpy(solved.prob).double(), False)
            doubt[torch.from_numpy(solved.label < 0)] = 1.0  # no label reaches it
        counts = torch.tensor(
            list(Counter(book.answers[item].class_id for item in labelled).values()), dtype=torch.long
        )
        value = doubt_value(doubt, candidate, counts)
        rule = VarianceReduction.of_graph(self._prepared.graph)
        return rule.choose(value, labelled, candidate, count).tolist()
