"""What a trainer is given, checked and completed before any work."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch_geometric.data import Data

from tg_crepe._checks import check_tensor
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.splits import LabelSplit
from tg_crepe.graph.feature_knn_graph import FeatureKNNGraph
from tg_crepe.nn import as_backbone, get_backbone
from tg_crepe.training.callbacks import Callback, Checkpoint, EpochLog, HoldOut, Interrupt, ResultFiles, WarnOnce
from tg_crepe.training.config import TrainingConfig
from tg_crepe.training.sources import EnergyLabels, LabelSource, NoLabels


def initial_state(dataset: ImageDataset, train_mask: LabelSplit | Tensor) -> Data:
    """The labels of the training images and a mask of them, checked against the data set.

    :obj:`y` is -1 where the mask is :obj:`False`, so that the truth of unlabelled images is out of reach from here on.
    """
    mask = check_tensor("train_mask", train_mask.train_mask if isinstance(train_mask, LabelSplit) else train_mask)
    if mask.dtype != torch.bool or list(mask.shape) != [len(dataset.train)]:
        raise ValueError(
            f"'train_mask' must be bool of shape [{len(dataset.train)}], one per training image, got {mask.dtype} of "
            f"shape {list(mask.shape)}"
        )
    if not bool(mask.any()):
        raise ValueError("'train_mask' must mark at least one labelled image, got none")
    mask, y = mask.cpu().clone(), dataset.targets[dataset.train]
    known = (y[mask] >= 0).view(int(mask.sum()), -1).any(dim=1)
    if not bool(known.all()):
        raise ValueError(f"'train_mask' must mark images with a known label, got {int((~known).sum())} without one")
    state = Data(y=torch.where(mask.view(-1, *[1] * (y.dim() - 1)), y, -1), train_mask=mask)
    state.num_classes = None if dataset.multi_label else dataset.num_classes
    return state


def check_fit(data: Data, source: LabelSource, config: TrainingConfig) -> None:
    """Raise where the settings do not fit the data, before any work."""
    for name in ("align_classes", "hold_out"):
        if getattr(config, name) and data.y.dim() == 2:
            raise ValueError(f"'{name}' must be False where an image may have several labels, got True")
    if config.hold_out:
        if isinstance(source, NoLabels):
            raise ValueError("'hold_out' must be False where there are no pseudo-labels ('source' is 'none'), got True")
        count = torch.bincount(data.y[data.train_mask])
        if 2 * int(count[count > 1].sum()) < int(count.sum()):
            raise ValueError("'hold_out' must be False where most labels are the only one of their class, got True")
    num_images = len(data.y)
    for step in source.steps if isinstance(source, EnergyLabels) else ():
        if isinstance(step, FeatureKNNGraph) and step.k >= num_images:
            raise ValueError(f"'k' must be below the number of training images, {num_images}, got {step.k}")


def make_network(backbone: str | nn.Module, dataset: ImageDataset, seed: int) -> nn.Module:
    """A network of the user's, or one by name with weights drawn from the seed."""
    if isinstance(backbone, nn.Module):
        return as_backbone(backbone)
    shape = dataset.images.shape
    return get_backbone(backbone, shape[1], dataset.num_classes, min(shape[2:]), seed=seed)


def make_optimizer(network: nn.Module, config: TrainingConfig) -> tuple[torch.optim.Optimizer, CosineAnnealingLR]:
    """Stochastic gradient descent whose rate falls to 0 as a cosine, as in the paper; Nesterov's momentum is ours."""
    optimizer = torch.optim.SGD(
        network.parameters(),
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        nesterov=True,
    )
    return optimizer, CosineAnnealingLR(optimizer, T_max=config.epochs)


def default_callbacks(network: nn.Module, config: TrainingConfig, keeps_run: bool, verbose: bool) -> list[Callback]:
    """What every trainer does at its moments; the order is that of an epoch's end, reversed at the end of training."""
    interrupt, warn_once = Interrupt(), WarnOnce()
    files: list[Callback] = [Checkpoint(), EpochLog(verbose), ResultFiles()] if keeps_run else [EpochLog(verbose)]
    hold_out = [HoldOut(network, (interrupt, warn_once))] if config.hold_out else []
    return [interrupt, *files, *hold_out, warn_once]  # warnings of the halves are their own, so it begins after them
