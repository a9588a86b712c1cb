from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tg_crepe._checks import check_choice
from tg_crepe.graph.knn import knn_graph
from tg_crepe.inference.soft_labels import certainty
from tg_crepe.models.base import EnergyModel
from tg_crepe.models.registry import ENERGY_MODELS, get_energy_model
from tg_crepe.runs.kept_nodes import moment_fields, nodes_with_moments
from tg_crepe.solvers.trace import Trace
from tg_crepe.training.alignment import align_classes
from tg_crepe.training.inference import probabilities

#: What gives the pseudo-labels: the network itself (plain pseudo-labelling), nothing (supervised), or an energy model.
SOURCES = ("network", "none", *ENERGY_MODELS)


def resolve_energy(energy: str | EnergyModel) -> str | EnergyModel:
    """An energy model by its name; :obj:`"network"` and :obj:`"none"` as they are."""
    if isinstance(energy, EnergyModel):
        return energy
    check_choice("energy", energy, SOURCES)
    return energy if energy in ("network", "none") else get_energy_model(energy)


@dataclass
class EnergyRun:
    r"""What an energy model left behind beside its pseudo-labels.

    Args:
        u (torch.Tensor): The class functions, of shape :obj:`[num_images, num_classes]`.
        reached (torch.Tensor): Which images a label reaches, bool of shape :obj:`[num_images]`.
        trace (Trace): One row a step of the solver.
        status (str): How the solver ended.
        graph_seconds (float): The time of the graph.
        energy_seconds (float): The time of the solver.
        moments (dict): The class functions of some images along the flow, as fields of a
            :class:`~tg_crepe.runs.RunResult`.
    """

    u: Tensor
    reached: Tensor
    trace: Trace
    status: str
    graph_seconds: float
    energy_seconds: float
    moments: dict[str, np.ndarray]


def labels_from_energy(
    model: EnergyModel, data: Data, num_classes: int, k: int, u0: Tensor | None, align: bool
) -> EnergyRun:
    r"""Builds the graph of :obj:`data.x` and adds the pseudo-labels of an energy model to ``data``.

    Args:
        model (EnergyModel): The model.
        data (Data): Features :obj:`x`, :obj:`y` and :obj:`train_mask`; it gets :obj:`edge_index`,
            :obj:`edge_weight`, :obj:`pseudo_y`, :obj:`pseudo_prob`, :obj:`certainty` and :obj:`pseudo_mask`.
        num_classes (int): The number of classes.
        k (int): The number of neighbours.
        u0 (torch.Tensor, optional): Where the solver starts.
        align (bool): Whether to move the pseudo-labels to the class distribution of the labels.
    """
    start = time.perf_counter()
    data.edge_index, data.edge_weight = knn_graph(data.x, k=k)
    graphed = time.perf_counter()
    device = data.x.device
    inputs = (data.y.to(device), data.edge_index, data.train_mask.to(device), data.edge_weight)
    classes = None if data.y.dim() == 2 else num_classes
    start_u = None if u0 is None else u0.to(device)
    result = model.propagate(*inputs, classes, start_u, snapshot_nodes=nodes_with_moments(len(data.y)))
    solved = time.perf_counter()
    data.pseudo_y, data.pseudo_prob = result.label.cpu(), result.prob.float().cpu()
    data.certainty, data.pseudo_mask = result.certainty.float().cpu(), result.pseudo_mask.cpu()
    if align:
        _align(data, num_classes)
    return EnergyRun(
        result.u.cpu(),
        result.reached.cpu(),
        result.trace,
        result.status,
        graphed - start,
        solved - graphed,
        moment_fields(result.moments),
    )


def labels_from_network(logits: Tensor, data: Data, num_classes: int, align: bool) -> None:
    r"""Adds the network's own predictions to ``data`` as pseudo-labels: the paper's ablation.

    Args:
        logits (torch.Tensor): The output of the network, of shape :obj:`[num_images, num_classes]`.
        data (Data): :obj:`y` and :obj:`train_mask`; it gets what :func:`labels_from_energy` adds, without a graph.
        num_classes (int): The number of classes.
        align (bool): Whether to move the pseudo-labels to the class distribution of the labels.
    """
    multi_label = data.y.dim() == 2
    prob = probabilities(logits, multi_label)
    predicted = (prob > 0.5).long() if multi_label else prob.argmax(dim=1)
    data.pseudo_y = torch.where(data.y >= 0, data.y, predicted)
    data.pseudo_prob = prob
    data.certainty, data.pseudo_mask = certainty(prob, multi_label), ~data.train_mask
    if align:
        _align(data, num_classes)


def _align(data: Data, num_classes: int) -> None:
    """Moves the soft and hard pseudo-labels of unlabelled images to the class distribution of the labels."""
    share = torch.bincount(data.y[data.train_mask], minlength=num_classes).double()
    moved = data.pseudo_mask
    data.pseudo_prob[moved] = align_classes(data.pseudo_prob[moved], share / share.sum())
    data.pseudo_y[moved] = data.pseudo_prob[moved].argmax(dim=1)
    data.certainty[moved] = certainty(data.pseudo_prob[moved], multi_label=False)
