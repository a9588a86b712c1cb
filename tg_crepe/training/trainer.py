from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from tg_crepe._optional import require
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.splits import LabelSplit
from tg_crepe.runs import RunFolder
from tg_crepe.training.alignment import align_labels
from tg_crepe.training.augment import Augment, mixup, multi_sample
from tg_crepe.training.callbacks import Callback
from tg_crepe.training.callbacks.checkpoint import FILE
from tg_crepe.training.callbacks.epoch_log import PHASES
from tg_crepe.training.config import TrainingConfig
from tg_crepe.training.features import NetworkView
from tg_crepe.training.judge import Judge
from tg_crepe.training.loss import HybridLoss
from tg_crepe.training.pretrained import is_pretrained, load_pretrained
from tg_crepe.training.processes import from_main_process, mean_over_processes, progress, share_buffers
from tg_crepe.training.sampler import MixedBatch, MixedBatchSampler, seeded_epoch
from tg_crepe.training.setup import check_fit, default_callbacks, initial_state, make_network, make_optimizer
from tg_crepe.training.sources import PSEUDO_LABELS, LabelSource, resolve_source

#: Steps after which the loss is looked at: a look makes a GPU wait.
_LOOK_EVERY = 50


class HybridTrainer:
    r"""The hybrid framework of the `"Energy Models for Better Pseudo-Labels: Improving Semi-Supervised Classification
    with the 1-Laplacian Graph Energy" <https://arxiv.org/abs/1906.08635>`_ paper: a network and an energy on the graph
    of its features, in turns.

    .. math::
        \hat{y} = \text{energy}(\text{graph}(f_\theta)), \qquad
        \min_\theta \frac{1}{|B_l|} \sum_{i \in B_l} \beta_{y_i} \mathrm{CE}(f_\theta(x_i), y_i) + \frac{\gamma}{|B_u|}
        \sum_{i \in B_u} \hat{\beta}_{\hat{y}_i} \varphi_i \mathrm{CE}(f_\theta(x_i), \hat{y}_i),

    where :math:`\hat{y}` are pseudo-labels, :math:`\varphi` their certainty and :math:`\beta` class weights. After a
    few supervised epochs each epoch extracts the features of all training images, lets the source give pseudo-labels,
    and goes once through the images that have one. The state is one :class:`~torch_geometric.data.Data`: :obj:`x`,
    :obj:`y` (-1 where not labelled), :obj:`train_mask`, and what the source writes (:obj:`pseudo_y`, …).

    .. code-block:: python

        import torch_geometric.transforms as T

        from tg_crepe import CrepePropagation, FeatureKNNGraph
        from tg_crepe.datasets import RandomLabelSplit, load_digits
        from tg_crepe.training import HybridTrainer, get_preset

        dataset, preset = load_digits(), get_preset("digits", "cpu")
        split = RandomLabelSplit(5, unit="per_class", seed=0).draw(dataset)
        source = T.Compose([FeatureKNNGraph(k=20, metric="cosine"), CrepePropagation()])  # what "crepe" stands for
        trainer = HybridTrainer(dataset, split, preset.backbone, source, preset.config, run="run").fit()
        trainer.final["error"]

    Devices, precision and processes are those of `Accelerate <https://huggingface.co/docs/accelerate>`_: start the same
    script with ``torchrun``; features and evaluation are shared out, the source runs on the main process. All that is
    drawn depends on the seed, the epoch and the rank alone: a run that was killed continues with the same numbers.

    Args:
        dataset (ImageDataset): The images. Labels outside ``train_mask`` and those of test images only reach the log.
        train_mask (LabelSplit or torch.Tensor): Which training images are labelled: a split, or bool of shape
            :obj:`[len(dataset.train)]`.
        backbone (str or torch.nn.Module, optional): A name of :func:`~tg_crepe.nn.get_backbone`, a pretrained network
            (``timm:NAME``, ``torchvision:NAME``, frozen unless :obj:`config.fine_tune`), or a network with
            :obj:`features(x)` and :obj:`head(features)`. (default: :obj:`"small_cnn"`)
        source (str, EnergyModel, callable or LabelSource, optional): What gives the pseudo-labels, see
            :func:`~tg_crepe.training.resolve_source`. (default: :obj:`"crepe"`)
        config (TrainingConfig, optional): The settings. (default: :obj:`None`, :class:`TrainingConfig()`)
        run (str or path, optional): The folder of the run, see :class:`~tg_crepe.runs.RunFolder`.
            (default: :obj:`None`, nothing is written)
        accelerator (accelerate.Accelerator, optional): Devices, precision. (default: :obj:`None`, the launcher's)
        verbose (bool, optional): Whether to write one line per epoch to stderr. (default: :obj:`False`)
        callbacks (sequence of Callback, optional): What else happens, after the trainer's own. (default: :obj:`()`)
    """

    def __init__(
        self,
        dataset: ImageDataset,
        train_mask: LabelSplit | Tensor,
        backbone: str | nn.Module = "small_cnn",
        source: str | LabelSource | Callable[[Data], Data] = "crepe",
        config: TrainingConfig | None = None,
        run: str | os.PathLike[str] | None = None,
        accelerator: Any = None,
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.config = settings = TrainingConfig() if config is None else config
        if is_pretrained(backbone):
            dataset, backbone = load_pretrained(str(backbone), dataset, settings.fine_tune, settings.seed)
        self.dataset, self._judge = dataset, Judge(dataset)
        self.source = resolve_source(source, settings.k)
        self.data = initial_state(dataset, train_mask)  # without the truth of unlabelled images
        check_fit(self.data, self.source, settings)
        self.checkpoint = None if run is None else Path(run) / "checkpoint" / FILE
        self.run: RunFolder | None = None
        self.epoch, self.resume = 0, False
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.history: list[dict[str, Any]] = []
        self.final: dict[str, Any] = {}

        network = make_network(backbone, dataset, settings.seed)
        self.callbacks = [*default_callbacks(network, settings, run is not None, verbose), *callbacks]
        optimizer, self.scheduler = make_optimizer(network, settings)
        self.accelerator = accelerator or require("accelerate", extra="train").Accelerator()
        self.network, self.optimizer = self.accelerator.prepare(network, optimizer)
        self._augment = Augment.preset(settings.augmentation, dataset.mean, dataset.std, flip=settings.flip)
        self._view = NetworkView(self.accelerator, self.network, dataset, self._check_finite)

    @property
    def model(self) -> nn.Module:
        """The network as it is now."""
        model: nn.Module = self.accelerator.unwrap_model(self.network)
        return model

    def fit(self, resume: bool = False) -> HybridTrainer:
        r"""Trains, or goes on training, and returns the trainer.

        Args:
            resume (bool, optional): Whether to go on from the checkpoint in the run folder; without one training
                starts from the beginning. (default: :obj:`False`, the run folder must be free)

        Raises:
            TrainingInterrupted: After Ctrl-C or SIGTERM, once the run folder is in order.
            FloatingPointError: Where the loss or a weight is no longer finite; names the last good checkpoint.
        """
        if self.epoch:
            raise RuntimeError("'fit' trains once; make another HybridTrainer to train again")
        if resume and self.checkpoint is None:
            raise ValueError("'run' must name the folder to resume from, got None")
        self.resume = resume
        with ExitStack() as stack:
            for callback in self.callbacks:
                callback.on_train_begin(self)
                stack.push(lambda kind, error, trace, end=callback.on_train_end: end(self, error))
            for _ in progress(self.accelerator, range(self.epoch, self.config.epochs), "epochs"):
                self.run_epoch()
            self.label_images()
            self.final = self._judge.final(self._view.test_logits(), self.data)
        return self

    def run_epoch(self) -> None:
        """New pseudo-labels where they are due, and one epoch of steps of the network."""
        self.epoch += 1
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._notify("on_epoch_begin")
        since_warmup = self.epoch - 1 - self.config.warmup_epochs
        hybrid = since_warmup >= 0
        if hybrid and since_warmup % self.config.refresh_every == 0:
            self.label_images()
        with self.timed("network"):
            loss = self._train(hybrid)
        row: dict[str, Any] = {"epoch": self.epoch, "phase": "hybrid" if hybrid else "warm-up"}
        row |= {"rate": self.scheduler.get_last_lr()[0], "loss": loss}
        self.scheduler.step()
        row |= self._judge.epoch(self._view.test_logits(), self.data)
        self.history.append(row | {f"{name}_seconds": value for name, value in self.seconds.items()})
        self._notify("on_epoch_end")

    def label_images(self) -> None:
        """New pseudo-labels from the source (features, graph, energy), the same on all processes."""
        with self.timed("features"):
            self.source.observe(self.data, self._view)
        self._notify("on_labels_begin")
        if self.config.warm_start and "propagation" in self.data:
            self.data.u0 = self.data.propagation.u
        if self.accelerator.is_main_process:
            self.data = self.source.label(self.data)
            self.seconds |= self.data.get("seconds") or {}
            self.data.seconds = None
            if self.config.align_classes and "pseudo_y" in self.data:
                align_labels(self.data)
        pseudo = {name: self.data.get(name) for name in PSEUDO_LABELS}
        for name, value in from_main_process(pseudo).items():
            self.data[name] = value
        self._notify("on_labels_end")

    def _train(self, hybrid: bool) -> float:
        """The steps of an epoch; returns their mean loss."""
        sampler = MixedBatchSampler.from_data(self.data, self.config, hybrid, self.accelerator)
        loss = HybridLoss.from_data(self.data, self.config)
        self.network.train()
        total = torch.zeros((), device=self.accelerator.device)
        with seeded_epoch(self.config.seed, self.epoch - 1, self.accelerator) as generator:
            batches = progress(self.accelerator, sampler.batches(self.epoch - 1), f"epoch {self.epoch}", len(sampler))
            for step, batch in enumerate(batches, start=1):
                self._notify("on_batch_begin", batch)
                value = self.train_step(batch, loss, generator)
                total += value
                if step % _LOOK_EVERY == 0:
                    self._check_finite(total)
                self._notify("on_batch_end", batch, value)
        share_buffers(self.accelerator, self.network)
        self._check_finite(total)
        # A last step may leave weights that only the next one would stumble over.
        self._check_finite(torch.stack([p.detach().abs().max() for p in self.network.parameters()]).sum())
        return float(mean_over_processes(self.accelerator, total)) / len(sampler)

    def train_step(self, batch: MixedBatch, loss: HybridLoss, generator: torch.Generator) -> Tensor:
        """One step on :class:`HybridLoss`, where :obj:`batch` is :math:`B_l` and :math:`B_u`; returns its value."""
        data, settings, device = self.data, self.config, self.accelerator.device
        index, pseudo_y, certainty = batch.labelled, None, None
        if loss.pseudo_class_weight is not None:
            index = torch.cat([batch.labelled, batch.pseudo])
            pseudo_y = (data.pseudo_prob if settings.soft_targets else data.pseudo_y)[batch.pseudo]
            certainty = data.certainty[batch.pseudo] if settings.certainty_weight else None
        target = loss.targets(data.y[batch.labelled], pseudo_y, certainty, batch.labelled_divisor, batch.pseudo_divisor)
        images = self.dataset.fetch(self.dataset.train[index]).to(device)
        x, target = multi_sample(self._augment, images, target.to(device), settings.num_samples, generator)
        if settings.mixup_alpha is not None:
            x, target = mixup(x, target, settings.mixup_alpha, generator)
        self.optimizer.zero_grad()
        with self.accelerator.autocast():
            value = loss(self.network(x), target)
        self.accelerator.backward(value)
        self.optimizer.step()
        return value.detach()

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Adds the seconds of the block to a part of the epoch."""
        start = time.perf_counter()
        yield
        self.seconds[phase] += time.perf_counter() - start

    def _notify(self, moment: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, moment)(self, *arguments)

    def _check_finite(self, value: Tensor) -> None:
        """Raise where a loss, a weight or an output is not finite on any process."""
        value = mean_over_processes(self.accelerator, value)
        if not bool(torch.isfinite(value)):
            path = self.checkpoint
            where = f"the last good checkpoint is '{path}'" if path else "there is no run folder, so no checkpoint"
            raise FloatingPointError(
                f"the loss, a weight or an output became {float(value)} in epoch {self.epoch}; {where}. A smaller "
                f"'learning_rate' than {self.config.learning_rate} may help"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dataset.name}, {int(self.data.train_mask.sum())} labels, {self.source})"
