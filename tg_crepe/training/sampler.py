from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from tg_crepe._checks import check_count, check_tensor
from tg_crepe.training.config import TrainingConfig


@dataclass(frozen=True, eq=False)
class MixedBatch:
    r"""The images that one process takes in one step.

    Processes average their gradients. For that average to be the gradient of the whole batch's mean, every process
    divides its sum of losses by the size of the whole batch over the number of processes, and not by its own count.

    Args:
        labelled (torch.Tensor): Indices of labelled images, long.
        pseudo (torch.Tensor): Indices of pseudo-labelled images, long.
        labelled_divisor (float): What the sum of losses over labelled images is divided by.
        pseudo_divisor (float): The same for pseudo-labelled images.
    """

    labelled: Tensor
    pseudo: Tensor
    labelled_divisor: float
    pseudo_divisor: float


class MixedBatchSampler:
    r"""Batches of labelled and pseudo-labelled images.

    An epoch goes through the pseudo-labelled images once, in batches whose sizes differ by at most one, and beside them
    as often through the labelled ones as fills their share. Without pseudo-labels it is a supervised epoch of full
    batches. The order depends on the seed and the epoch alone, so that a resumed run sees the same; step :math:`t`
    holds the same images however many processes share it.

    Args:
        labelled (torch.Tensor): Indices of labelled images, long of shape :obj:`[num_labelled]`.
        pseudo (torch.Tensor): Indices of pseudo-labelled images, long of shape :obj:`[num_pseudo]`; may be empty.
        batch_size (int, optional): The number of images in a step, over all processes. (default: :obj:`100`)
        labelled_per_batch (int, optional): How many of them are labelled where there are pseudo-labels.
            (default: :obj:`None`, half)
        supervised_passes (int, optional): How often an epoch without pseudo-labels goes through the labelled images; a
            handful of them is otherwise an epoch of one step. (default: :obj:`1`)
        seed (int, optional): The seed of the order. (default: :obj:`0`)
        num_processes (int, optional): The number of processes that share every batch. (default: :obj:`1`)
        rank (int, optional): Which of them this is. (default: :obj:`0`)
    """

    def __init__(
        self,
        labelled: Tensor,
        pseudo: Tensor,
        batch_size: int = 100,
        labelled_per_batch: int | None = None,
        supervised_passes: int = 1,
        seed: int = 0,
        num_processes: int = 1,
        rank: int = 0,
    ) -> None:
        _check_indices("labelled", labelled)
        _check_indices("pseudo", pseudo)
        check_count("batch_size", batch_size, low=2)
        share = batch_size // 2 if labelled_per_batch is None else labelled_per_batch
        check_count("labelled_per_batch", share, high=batch_size - 1, high_name="batch_size - 1")
        check_count("supervised_passes", supervised_passes)
        check_count("seed", seed, low=0)
        check_count("num_processes", num_processes)
        check_count("rank", rank, low=0, high=num_processes - 1, high_name="num_processes - 1")
        if labelled.numel() == 0:
            raise ValueError("'labelled' must hold at least one index, got none")
        both = torch.isin(pseudo, labelled)
        if bool(both.any()):
            raise ValueError(f"'pseudo' must hold no labelled image, got {int(both.sum())} of them")
        self.labelled = labelled
        self.pseudo = pseudo
        self.seed = seed
        self.num_processes = num_processes
        self.rank = rank
        if pseudo.numel():
            self._num_batches = _ceil_divide(pseudo.numel(), batch_size - share)
            self._num_labelled = self._num_batches * share
        else:
            self._num_labelled = labelled.numel() * supervised_passes
            self._num_batches = _ceil_divide(self._num_labelled, batch_size)
        if self._num_labelled // self._num_batches < num_processes:
            raise ValueError(
                "'num_processes' must leave every process a labelled image in every step, at most "
                f"{self._num_labelled // self._num_batches}, got {num_processes}"
            )

    @classmethod
    def from_data(cls, data: Data, config: TrainingConfig, hybrid: bool, accelerator: Any) -> MixedBatchSampler:
        r"""The batches of an epoch of the trainer.

        Args:
            data (Data): :obj:`train_mask` and, where there are pseudo-labels, :obj:`pseudo_mask`.
            config (TrainingConfig): The settings.
            hybrid (bool): Whether all pseudo-labelled images take part, or where there are none all unlabelled ones,
                so that a supervised baseline takes the same steps; else labelled images alone.
            accelerator (accelerate.Accelerator): The processes that share every batch.
        """
        mask = data.pseudo_mask if "pseudo_mask" in data else ~data.train_mask
        return cls(
            data.train_mask.nonzero().view(-1),
            mask.nonzero().view(-1) if hybrid else torch.empty(0, dtype=torch.long),
            batch_size=config.batch_size,
            labelled_per_batch=config.labelled_per_batch,
            supervised_passes=config.warmup_passes,
            seed=config.seed,
            num_processes=accelerator.num_processes,
            rank=accelerator.process_index,
        )

    def __len__(self) -> int:
        return self._num_batches

    def batches(self, epoch: int) -> Iterator[MixedBatch]:
        r"""The steps of an epoch.

        Args:
            epoch (int): The number of the epoch, from 0.
        """
        check_count("epoch", epoch, low=0)
        repeats = _ceil_divide(self._num_labelled, self.labelled.numel())
        labelled = self._order(self.labelled, epoch, 0, repeats)[: self._num_labelled]
        pseudo = self._order(self.pseudo, epoch, 1)
        steps = zip(labelled.tensor_split(len(self)), pseudo.tensor_split(len(self)), strict=True)
        for of_labelled, of_pseudo in steps:
            yield MixedBatch(
                of_labelled[self.rank :: self.num_processes],
                of_pseudo[self.rank :: self.num_processes],
                of_labelled.numel() / self.num_processes,
                of_pseudo.numel() / self.num_processes,
            )

    def _order(self, index: Tensor, epoch: int, kind: int, repeats: int = 1) -> Tensor:
        """Shuffles the indices as often as asked; either kind of image has an order of its own."""
        generator = generator_of(self.seed, epoch, kind)
        order = torch.cat([torch.randperm(index.numel(), generator=generator) for _ in range(repeats)])
        return index[order.to(index.device)]


def generator_of(*key: int) -> torch.Generator:
    """A generator that depends on the numbers alone."""
    return torch.Generator().manual_seed(_seeds(key, 1)[0])


@contextmanager
def seeded_epoch(seed: int, epoch: int, accelerator: Any) -> Iterator[torch.Generator]:
    r"""Everything else that is drawn in an epoch, from the seed, the epoch and the rank alone.

    A resumed run therefore needs no state of a generator, and the user's global ones are as they were afterwards.

    Args:
        seed (int): The seed of the run.
        epoch (int): The number of the epoch.
        accelerator (accelerate.Accelerator): The processes; each draws differently.

    Yields:
        torch.Generator: For augmentation. Inside the block the global generators, which dropout draws from, are seeded.
    """
    # The third number tells it from the orders of the two kinds of images, 0 and 1.
    first, second = _seeds((seed, epoch, 2, accelerator.process_index), 2)
    device = accelerator.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(first)
        if device.type == "cuda":
            torch.cuda.manual_seed(first)
        yield torch.Generator().manual_seed(second)


def _seeds(key: tuple[int, ...], count: int) -> list[int]:
    """Seeds from a key; torch takes 63 bits on every platform."""
    return [int(x) >> 1 for x in np.random.SeedSequence(key).generate_state(count, np.uint64)]


def _ceil_divide(a: int, b: int) -> int:
    """The least integer not below a / b."""
    return -(-a // b)


def _check_indices(name: str, index: Tensor) -> None:
    """Raise unless ``index`` is a vector of different indices."""
    check_tensor(name, index)
    if index.dim() != 1 or index.dtype != torch.long:
        raise ValueError(f"'{name}' must be a long tensor of indices, got {index.dtype} of shape {list(index.shape)}")
    if index.numel() and int(index.min()) < 0:
        raise ValueError(f"'{name}' must not be negative, got {int(index.min())}")
    if index.unique().numel() != index.numel():
        raise ValueError(f"'{name}' must hold every index once, got repeats")
