from __future__ import annotations

from torch import Tensor

from tg_crepe._checks import check_choice
from tg_crepe.active.label_next import STRATEGIES, label_next
from tg_crepe.graph.prepare import PreparedGraph, prepare
from tg_crepe.models import CrepePropagation, EnergyModel, PropagationResult
from tg_crepe.typing import Adjacency, OptTensor


class LabelLoop:
    r"""Suggest, answer, propagate: labels are asked for where they help most.

    .. code-block:: python

        from tg_crepe.active import LabelLoop

        loop = LabelLoop(y, edge_index, mask, edge_weight)
        while budget:
            nodes = loop.suggest(10)
            loop.answer(nodes, ask_a_person(nodes))
        loop.result.label, loop.result.certainty

    Args:
        y (torch.Tensor): Classes or findings as in :meth:`~tg_crepe.EnergyModel.propagate`; it is read where ``mask``
            is True alone, and copied.
        edge_index: The graph; it is prepared once for all rounds (:func:`~tg_crepe.prepare`).
        mask (torch.Tensor): The nodes that are labelled already, bool of shape :obj:`[num_nodes]`.
        edge_weight (torch.Tensor, optional): Weights of shape :obj:`[num_edges]`. (default: :obj:`None`, ones)
        model (EnergyModel, optional): The model. (default: :obj:`None`, :class:`~tg_crepe.CrepePropagation`,
            told that labels are chosen)
        strategy (str, optional): See :func:`label_next`. (default: :obj:`"coverage"`)
        num_classes (int, optional): The number of classes, where not all of them have a label yet.
            (default: :obj:`None`)
        warm_start (bool, optional): Whether a propagation goes on from the last one where answers are few beside the
            labels that there are (``start`` of :meth:`~tg_crepe.EnergyModel.propagate`): quicker, and about one node in
            a thousand gets another label than it would else. (default: :obj:`False`)
        seed (int, optional): The seed of the strategy :obj:`"random"`. (default: :obj:`0`)
    """

    def __init__(
        self,
        y: Tensor,
        edge_index: Adjacency,
        mask: Tensor,
        edge_weight: OptTensor = None,
        model: EnergyModel | None = None,
        strategy: str = "coverage",
        num_classes: int | None = None,
        warm_start: bool = False,
        seed: int = 0,
    ) -> None:
        check_choice("strategy", strategy, STRATEGIES)
        self.y, self.mask = y.clone(), mask.clone()
        # Labels that are asked for are no sample of the nodes, unless they are asked for at random.
        self.model = model or CrepePropagation(sampling="auto" if strategy == "random" else "chosen")
        if isinstance(edge_index, PreparedGraph) and edge_weight is None:
            self.graph = edge_index
        else:
            self.graph = prepare(edge_index, edge_weight, len(self.mask), self.model.symmetrize)
        self.strategy = strategy
        self.num_classes = num_classes
        self.warm_start = warm_start
        self.seed = seed
        self.result = self._propagate(self.y, self.mask)

    @property
    def multi_label(self) -> bool:
        """Whether the labels are findings on their own."""
        return self.result.label.dim() == 2

    def suggest(self, n: int = 10) -> Tensor:
        """The nodes to label next, of shape :obj:`[n]`, the most useful first."""
        return label_next(
            self.result.prob,
            self.mask,
            self.graph,
            None,
            n,
            self.strategy,
            self.multi_label,
            # Another draw in every round, and the same one again for the same seed.
            self.seed * 1_000_003 + int(self.mask.sum()),
        )

    def answer(self, nodes: Tensor, labels: Tensor) -> PropagationResult:
        """Takes the labels of some nodes and propagates anew.

        Args:
            nodes (torch.Tensor): The nodes, of shape :obj:`[count]`.
            labels (torch.Tensor): Their classes of shape :obj:`[count]`, or findings :obj:`[count, num_classes]`.
        """
        y, mask = self.y.clone(), self.mask.clone()
        y[nodes] = labels.to(y.dtype)
        mask[nodes] = True
        self.result = self._propagate(y, mask, self.result if self.warm_start else None)
        self.y, self.mask = y, mask  # not where the labels were refused
        return self.result

    def _propagate(self, y: Tensor, mask: Tensor, start: PropagationResult | None = None) -> PropagationResult:
        return self.model.propagate(y, self.graph, mask, None, self.num_classes, start=start)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({int(self.mask.sum())} labelled, strategy={self.strategy!r})"
