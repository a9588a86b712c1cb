from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch_geometric.data import Data

from tg_crepe._files import atomic_file
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.runs import RunFolder, RunResult
from tg_crepe.runs.kept_nodes import moment_fields, nodes_with_image, nodes_with_moments, suggest_nodes
from tg_crepe.runs.plane import principal_plane
from tg_crepe.training.callbacks.base import Callback

if TYPE_CHECKING:
    from tg_crepe.training.trainer import HybridTrainer


class ResultFiles(Callback):
    """Writes what a finished run leaves in its folder: the last metrics, and the pseudo-labels of the last model."""

    def on_train_begin(self, trainer: HybridTrainer) -> None:
        """Asks for the way of some nodes along the flow."""
        if trainer.run is not None:
            trainer.data.snapshot_nodes = nodes_with_moments(len(trainer.dataset.train), trainer.data.train_mask)

    def on_train_end(self, trainer: HybridTrainer, error: BaseException | None) -> None:
        """Writes the files, unless an error ended training."""
        trainer.data.snapshot_nodes = None  # a question, no part of the answer
        if error is not None or trainer.run is None:
            return
        with atomic_file(trainer.run.path / "final.json") as unfinished:
            unfinished.write_text(json.dumps(trainer.final, indent=2) + "\n", encoding="utf-8")
        if "pseudo_y" in trainer.data:
            write_result(trainer.run, trainer.dataset, trainer.data)


def write_result(run: RunFolder, dataset: ImageDataset, data: Data) -> None:
    r"""Writes the pseudo-labels of the training images, their graph, the trace and some moments of the last flow, and
    some images, those that are worth a label next among them.

    Args:
        run (RunFolder): Where to.
        dataset (ImageDataset): The images.
        data (Data): The state after the last epoch.
    """
    train, propagation = dataset.train, data.get("propagation")
    run.write_result(
        RunResult(
            ids=np.array([dataset.ids[i] for i in train.tolist()]),
            label=data.pseudo_y.numpy(),
            prob=data.pseudo_prob.numpy(),
            certainty=data.certainty.numpy(),
            reached=(data.pseudo_mask | data.train_mask).numpy(),
            labelled=data.train_mask.numpy(),
            class_names=np.array(dataset.class_names),
            position=None if data.get("x") is None else principal_plane(data.x.numpy()),
            truth=dataset.targets[train].numpy(),
            **moment_fields(None if propagation is None else propagation.moments),
        )
    )
    suggested = None
    if data.get("edge_index") is not None:
        weight = data.get("edge_weight")
        graph = (data.edge_index, torch.ones(data.num_edges) if weight is None else weight)
        suggested = suggest_nodes(data.pseudo_prob, data.train_mask, graph, data.y.dim() == 2)
        run.write_graph(*graph, len(train))
    if propagation is not None and len(propagation.trace):
        run.write_trace(propagation.trace)
    pictures = getattr(dataset, "pictures", None) or dataset  # the images of features, where there are some
    node = nodes_with_image(len(train), suggested, data.train_mask, pictures.fetch(train[:1]).numel())
    run.write_thumbnails(node, pictures.fetch(train[node]))
