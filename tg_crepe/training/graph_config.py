from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tg_crepe._checks import check_choice, check_count, check_positive
from tg_crepe.graph.join import check_share


@dataclass(frozen=True)
class GraphTrainingConfig:
    r"""The settings of :class:`~tg_crepe.training.GraphTrainer`.

    The defaults of the network's training are those of PyG's GCN example (200 epochs of Adam at 0.01 with a weight
    decay of 5e-4).

    Args:
        rounds (int, optional): How often the networks are trained: once on the labels, then on the pseudo-labels of the
            round before; once where every class has one label, which cannot be left out to judge more.
            (default: :obj:`2`)
        folds (int, optional): The parts that the labels are dealt into; a network more is trained for every part,
            without it. (default: :obj:`5`)
        epochs (int, optional): The steps of a network, or passes through the loader. (default: :obj:`200`)
        learning_rate (float, optional): That of Adam. (default: :obj:`0.01`)
        weight_decay (float, optional): That of Adam, of all weights. (default: :obj:`5e-4`)
        k (int, optional): The neighbours in the graph of the features; no such graph with 0. (default: :obj:`20`)
        features (str, optional): Of what: the :obj:`"input"`, :obj:`data.x`, or the :obj:`"network"`, what its
            :obj:`features(x, edge_index)` gives, or its outputs where it has none; the graph is then made
            anew in every round and for every part. (default: :obj:`"input"`)
        share (sequence of float, optional): The shares of the given edges and of the graph of the features.
            (default: :obj:`None`, chosen on the input by labels that are left out, see
            :func:`~tg_crepe.choose_shares`; features that were trained on labels would flatter theirs)
        alpha (float, optional): How far the evidence of a network is diffused on the graph, in :math:`[0, 1)`.
            (default: :obj:`0.8`, that of Correct-and-Smooth)
        pseudo_weight (float, optional): The :math:`\gamma` of the loss. (default: :obj:`1.0`)
        soft_targets (bool, optional): Whether the network learns the probabilities of a pseudo-label and not its class.
            (default: :obj:`True`: they are calibrated)
        certainty_weight (bool, optional): Whether a pseudo-label weighs as much as it is certain, the :math:`\varphi`
            of the loss. (default: :obj:`True`)
        class_weight (bool, optional): Whether rare classes weigh more, the :math:`\beta` of the loss.
            (default: :obj:`False`, as in PyG's examples)
        seed (int, optional): The seed of the parts and of dropout. (default: :obj:`0`)
    """

    rounds: int = 2
    folds: int = 5
    epochs: int = 200
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    k: int = 20
    features: str = "input"
    share: Sequence[float] | None = None
    alpha: float = 0.8
    pseudo_weight: float = 1.0
    soft_targets: bool = True
    certainty_weight: bool = True
    class_weight: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rounds", "epochs"):
            check_count(name, getattr(self, name))
        check_count("folds", self.folds, low=2)
        for name in ("k", "seed"):
            check_count(name, getattr(self, name), low=0)
        for name in ("learning_rate", "pseudo_weight"):
            check_positive(name, getattr(self, name))
        check_choice("features", self.features, ("input", "network"))
        if not 0 <= self.weight_decay < 1:
            raise ValueError(f"'weight_decay' must be in [0, 1), got {self.weight_decay!r}")
        if not 0 <= self.alpha < 1:
            raise ValueError(f"'alpha' must be in [0, 1), got {self.alpha!r}")
        if self.share is not None:
            check_share(self.share, 2)
