from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data

from tg_crepe._checks import check_choice
from tg_crepe.graph.feature_knn_graph import FeatureKNNGraph
from tg_crepe.inference.soft_labels import certainty
from tg_crepe.models.base import EnergyModel
from tg_crepe.models.registry import ENERGY_MODELS, get_energy_model
from tg_crepe.training.features import NetworkView, probabilities

#: What a source writes for every training image.
PSEUDO_LABELS = ("pseudo_y", "pseudo_prob", "certainty", "pseudo_mask")


class LabelSource:
    r"""Where the pseudo-labels of an epoch come from; a new source is one subclass.

    .. code-block:: python

        from tg_crepe.training import LabelSource

        class NearestCentre(LabelSource):
            def observe(self, data, network):
                data.x = network.features()

            def label(self, data):
                centres = [data.x[data.train_mask & (data.y == k)].mean(dim=0) for k in range(data.num_classes)]
                data.pseudo_prob = (10 * data.x @ torch.stack(centres).T).softmax(dim=1)
                data.certainty, data.pseudo_y = data.pseudo_prob.max(dim=1)
                data.pseudo_mask = ~data.train_mask
                return data
    """

    def observe(self, data: Data, network: NetworkView) -> None:
        """Adds to ``data`` what the source reads of the network; all processes call it."""

    def label(self, data: Data) -> Data:
        r"""Gives every training image a pseudo-label; the main process alone calls it.

        Args:
            data (Data): :obj:`y` (-1 where not labelled), :obj:`train_mask`, :obj:`num_classes` (of exclusive classes)
                and what :meth:`observe` added.

        Returns:
            Data: The same with :obj:`pseudo_y`, :obj:`pseudo_prob`, :obj:`certainty` and :obj:`pseudo_mask`, and where
            the log should tell them apart with :obj:`seconds`, a dictionary by :obj:`"graph"` and :obj:`"energy"`.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"


class EnergyLabels(LabelSource):
    r"""Pseudo-labels of an energy on the graph of the network's features, as one transform.

    .. code-block:: python

        import torch_geometric.transforms as T

        from tg_crepe import CrepePropagation, FeatureKNNGraph
        from tg_crepe.training import EnergyLabels

        source = EnergyLabels(T.Compose([FeatureKNNGraph(k=20), CrepePropagation()]))

    Args:
        transform (callable): From a :class:`~torch_geometric.data.Data` with the unit features :obj:`x`, :obj:`y` and
            :obj:`train_mask` to one with :obj:`pseudo_y`, :obj:`pseudo_prob`, :obj:`certainty` and
            :obj:`pseudo_mask`. The steps of a :class:`~torch_geometric.transforms.Compose` before the last one are
            logged as the graph.
    """

    def __init__(self, transform: Callable[[Data], Data]) -> None:
        if not callable(transform):
            raise ValueError(f"'transform' must be callable, from Data to Data, got {type(transform).__name__}")
        self.transform = transform

    @property
    def steps(self) -> list[Callable[[Data], Data]]:
        """The parts of the transform, the energy last."""
        return list(self.transform.transforms) if isinstance(self.transform, T.Compose) else [self.transform]

    def observe(self, data: Data, network: NetworkView) -> None:
        """Reads the features, as :obj:`data.x`."""
        data.x = network.features()

    def label(self, data: Data) -> Data:
        """Applies the transform on the device of the features."""
        data = copy.copy(data).to(data.x.device)
        data.keep_propagation = True  # a warm start and the files of a run read more than the pseudo-labels
        *before, energy = self.steps
        start = time.perf_counter()
        for step in before:
            data = step(data)
        graphed = time.perf_counter()
        data = energy(data)
        del data.keep_propagation
        data.seconds = {"graph": graphed - start, "energy": time.perf_counter() - graphed}
        missing = [name for name in PSEUDO_LABELS if data.get(name) is None]
        if missing:
            raise ValueError(f"'transform' must write {', '.join(PSEUDO_LABELS)}, got no {', '.join(missing)}")
        data.pseudo_prob, data.certainty = data.pseudo_prob.float(), data.certainty.float()
        return data.cpu()

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({', '.join(map(repr, self.steps))})"


class NetworkLabels(LabelSource):
    """The network's own predictions: plain pseudo-labelling, the paper's ablation."""

    def observe(self, data: Data, network: NetworkView) -> None:
        """Reads the outputs, as :obj:`data.logits`."""
        data.logits = network.logits()

    def label(self, data: Data) -> Data:
        """Takes the most probable class, or every finding that is more probable than not."""
        multi_label = data.y.dim() == 2
        prob = probabilities(data.logits, multi_label)
        predicted = (prob > 0.5).long() if multi_label else prob.argmax(dim=1)
        data.pseudo_y, data.pseudo_prob = torch.where(data.y >= 0, data.y, predicted), prob
        data.certainty, data.pseudo_mask = certainty(prob, multi_label), ~data.train_mask
        return data


class NoLabels(LabelSource):
    """None: the supervised baseline takes the same steps on the same labelled images, without the second term."""

    def label(self, data: Data) -> Data:
        """Writes nothing."""
        return data


def resolve_source(source: str | LabelSource | Callable[[Data], Data], k: int = 20) -> LabelSource:
    r"""The source that a name, an energy model or a transform stands for.

    Args:
        source (str, LabelSource or callable): :obj:`"network"`, :obj:`"none"` or the name of an energy model
            (:func:`~tg_crepe.get_energy_model`); an :class:`~tg_crepe.EnergyModel`; any other transform; or a source.
        k (int, optional): The neighbours in the graph that an energy model gets. (default: :obj:`20`)
    """
    if isinstance(source, LabelSource):
        return source
    if isinstance(source, str):
        own: dict[str, type[LabelSource]] = {"network": NetworkLabels, "none": NoLabels}
        check_choice("source", source, (*own, *ENERGY_MODELS))
        if source in own:
            return own[source]()
        source = get_energy_model(source)
    if not isinstance(source, EnergyModel):
        return EnergyLabels(source)
    # Features of a network are of unit length: there is nothing to choose at every look.
    return EnergyLabels(T.Compose([FeatureKNNGraph(k=k, metric="cosine"), source]))


def describe(part: Any) -> str:
    """A source or a transform with all its options: where two differ, so do their texts."""
    if isinstance(part, (list, tuple)):
        return f"[{', '.join(map(describe, part))}]"
    if isinstance(part, (LabelSource, T.BaseTransform)):
        options = (f"{name}={describe(vars(part)[name])}" for name in sorted(vars(part)) if not name.startswith("_"))
        return f"{type(part).__name__}({', '.join(options)})"
    return getattr(part, "__qualname__", type(part).__name__) if callable(part) else str(part)
