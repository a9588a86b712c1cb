from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.runs import RunFolder, RunResult
from tg_crepe.runs.kept_nodes import nodes_with_image, suggested_nodes
from tg_crepe.runs.plane import principal_plane
from tg_crepe.training.pseudo_labels import EnergyRun


def write_result(run: RunFolder, dataset: ImageDataset, data: Data, energy: EnergyRun | None) -> None:
    r"""Writes the pseudo-labels of the training images, their graph, the trace and some moments of the last flow, and
    some images, those that are worth a label next among them.

    Args:
        run (RunFolder): Where to.
        dataset (ImageDataset): The images.
        data (Data): The state after the last epoch.
        energy (EnergyRun, optional): What the energy model left; :obj:`None` where the network gave the labels.
    """
    train = dataset.train
    reached = torch.ones_like(data.train_mask) if energy is None else energy.reached
    run.write_result(
        RunResult(
            ids=np.array([dataset.ids[i] for i in train.tolist()]),
            label=data.pseudo_y.numpy(),
            prob=data.pseudo_prob.numpy(),
            certainty=data.certainty.numpy(),
            reached=reached.numpy(),
            labelled=data.train_mask.numpy(),
            class_names=np.array(dataset.class_names),
            position=None if data.get("x") is None else principal_plane(data.x.numpy()),
            truth=dataset.targets[train].numpy(),
            **(energy.moments if energy is not None else {}),
        )
    )
    suggested = None
    if energy is not None:
        graph = (data.edge_index, data.edge_weight)
        suggested = suggested_nodes(data.pseudo_prob, data.train_mask, graph, data.y.dim() == 2)
        run.write_graph(data.edge_index, data.edge_weight, len(train))
        if len(energy.trace):
            run.write_trace(energy.trace)
    node = nodes_with_image(len(train), suggested)
    run.write_thumbnails(node, dataset.fetch(train[node]))
