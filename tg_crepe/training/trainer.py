from __future__ import annotations

import copy
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from tqdm import tqdm

from tg_crepe._files import atomic_file
from tg_crepe._optional import require
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.splits import LabelSplit
from tg_crepe.models.base import EnergyModel
from tg_crepe.nn import as_backbone, get_backbone
from tg_crepe.runs import RunFolder
from tg_crepe.training.augment import Augment, mixup, multi_sample
from tg_crepe.training.checkpoint import FILE, describe_run, load_checkpoint, save_checkpoint
from tg_crepe.training.config import TrainingConfig
from tg_crepe.training.held_out import HeldOutCount, count_wrong, halve_labels, temper
from tg_crepe.training.inference import Inference
from tg_crepe.training.inputs import check_fit, labelled_mask
from tg_crepe.training.interrupt import Interrupt, TrainingInterrupted
from tg_crepe.training.judge import Judge
from tg_crepe.training.log import EpochLog, Row
from tg_crepe.training.loss import ClassWeights, HybridLoss
from tg_crepe.training.processes import (
    from_main_process,
    largest,
    mean_over_processes,
    share_buffers,
)
from tg_crepe.training.pseudo_labels import EnergyRun, labels_from_energy, labels_from_network, resolve_energy
from tg_crepe.training.result_files import write_result
from tg_crepe.training.sampler import MixedBatch, MixedBatchSampler
from tg_crepe.training.seeding import seeded_epoch
from tg_crepe.training.warn_once import warn_once

#: Steps after which the loss is looked at: a look makes a GPU wait.
_LOOK_EVERY = 50

#: What of the state of an epoch a checkpoint keeps; the graph is built anew.
_PSEUDO = ("pseudo_y", "pseudo_prob", "certainty", "pseudo_mask")


@dataclass(frozen=True)
class TrainingResult:
    r"""What training ends with; nothing in it was chosen on the test images.

    Args:
        model (torch.nn.Module): The last model.
        data (Data): Its features, graph and pseudo-labels.
        history (list): One row an epoch: loss, errors, certainty, seconds.
        final (dict): The metrics of the last model.
    """

    model: nn.Module
    data: Data
    history: list[Row]
    final: dict[str, Any]


class HybridTrainer:
    r"""The hybrid framework of the `"Energy Models for Better Pseudo-Labels: Improving Semi-Supervised Classification
    with the 1-Laplacian Graph Energy" <https://arxiv.org/abs/1906.08635>`_ paper: a network and an energy on the graph
    of its features, in turns.

    .. math::
        \hat{y} = \text{energy}(\text{graph}(f_\theta)), \qquad
        \min_\theta \frac{1}{|B_l|} \sum_{i \in B_l} \beta_{y_i} \mathrm{CE}(f_\theta(x_i), y_i) + \frac{\gamma}{|B_u|}
        \sum_{i \in B_u} \hat{\beta}_{\hat{y}_i} \varphi_i \mathrm{CE}(f_\theta(x_i), \hat{y}_i),

    where :math:`\hat{y}` are pseudo-labels, :math:`\varphi` their certainty and :math:`\beta` class weights. After a
    few supervised epochs each epoch extracts the features of all training images, builds their graph, lets the energy
    label it, and goes once through the pseudo-labelled images. The state of an epoch is one
    :class:`~torch_geometric.data.Data`: :obj:`x`, :obj:`edge_index`, :obj:`edge_weight`, :obj:`y` (-1 where not
    labelled), :obj:`train_mask`, :obj:`pseudo_y`, :obj:`pseudo_prob`, :obj:`certainty` and :obj:`pseudo_mask`.

    .. code-block:: python

        from tg_crepe.datasets import RandomLabelSplit, load_digits
        from tg_crepe.training import HybridTrainer, get_preset

        dataset, preset = load_digits(), get_preset("digits", "cpu")
        split = RandomLabelSplit(5, unit="per_class", seed=0).draw(dataset)
        result = HybridTrainer(dataset, split, preset.backbone, config=preset.config, run="run").fit()
        result.final["error"]

    Devices, mixed precision and several processes are those of `Accelerate
    <https://huggingface.co/docs/accelerate>`_: start the same script with ``torchrun`` or ``accelerate launch``.
    Features and evaluation are shared out, the graph and the energy run on the main process.

    Everything that is drawn depends on the seed, the epoch and the rank alone, so that a run that was killed in any
    epoch continues from its checkpoint with the numbers of one that was not.

    Args:
        dataset (ImageDataset): The images. The labels of training images that are not labelled and of test images
            only reach the log.
        train_mask (LabelSplit or torch.Tensor): Which training images are labelled: a split, or bool of shape
            :obj:`[len(dataset.train)]`.
        backbone (str or torch.nn.Module, optional): A name of :func:`~tg_crepe.nn.get_backbone`, or a network with
            :obj:`features(x)` and :obj:`head(features)`. (default: :obj:`"small_cnn"`)
        energy (str or EnergyModel, optional): What gives the pseudo-labels: an energy model or its name
            (:func:`~tg_crepe.get_energy_model`); :obj:`"network"`, the network's own predictions; :obj:`"none"`, the
            supervised baseline, which takes the same steps on the same labelled images and leaves the second term of
            the loss out. (default: :obj:`"crepe"`)
        config (TrainingConfig, optional): The settings. (default: :obj:`None`, :class:`TrainingConfig()`)
        run (str or path, optional): The folder of the run: a checkpoint an epoch, metrics and the result, see
            :class:`~tg_crepe.runs.RunFolder`. (default: :obj:`None`, nothing is written)
        accelerator (accelerate.Accelerator, optional): Devices and precision.
            (default: :obj:`None`, what the launcher says)
        verbose (bool, optional): Whether to write a line an epoch to stderr; a bar is shown on a terminal only.
            (default: :obj:`False`)
    """

    def __init__(
        self,
        dataset: ImageDataset,
        train_mask: LabelSplit | Tensor,
        backbone: str | nn.Module = "small_cnn",
        energy: str | EnergyModel = "crepe",
        config: TrainingConfig | None = None,
        run: str | os.PathLike[str] | None = None,
        accelerator: Any = None,
        verbose: bool = False,
    ) -> None:
        self.config = TrainingConfig() if config is None else config
        self.dataset = dataset
        self.energy = resolve_energy(energy)
        mask = labelled_mask(dataset, train_mask)
        check_fit(dataset, mask, self.energy, self.config)
        # From here on the truth of unlabelled images is out of reach of everything but the judge.
        targets = dataset.targets[dataset.train]
        self.data = Data(y=torch.where(mask.view(-1, *[1] * (targets.dim() - 1)), targets, -1), train_mask=mask)
        self._judge = Judge(dataset)
        self._path = None if run is None else Path(run)
        self._verbose = verbose
        self._accelerator = accelerator or require("accelerate", extra="train").Accelerator()
        self._seen_warnings: set[tuple[type[Warning], str]] = set()
        self._energy_run: EnergyRun | None = None
        self._u: Tensor | None = None
        self._held_out: HeldOutCount | None = None
        self._epoch = 0

        network = self._make_network(backbone)
        self._untrained = copy.deepcopy(network) if self.config.hold_out else None
        settings = self.config
        optimizer = torch.optim.SGD(
            network.parameters(),
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=True,
        )
        self._scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=settings.epochs)
        self._settings = describe_run(dataset, self.data.y, mask, network, self.energy, settings)
        self._network, self._optimizer = self._accelerator.prepare(network, optimizer)
        self._augment = Augment.preset(settings.augmentation, dataset.mean, dataset.std, flip=settings.flip)
        self._inference = Inference(self._accelerator, self._network, dataset)

    @property
    def model(self) -> nn.Module:
        """The network as it is now."""
        model: nn.Module = self._accelerator.unwrap_model(self._network)
        return model

    def fit(self, resume: bool = False) -> TrainingResult:
        r"""Trains, or goes on training.

        Args:
            resume (bool, optional): Whether to go on from the checkpoint in the run folder; without one training
                starts from the beginning. (default: :obj:`False`, the run folder must be free)

        Raises:
            TrainingInterrupted: After Ctrl-C or SIGTERM, once the run folder is in order.
            FloatingPointError: Where the loss or a weight is no longer finite; names the last good checkpoint.
        """
        if self._epoch:
            raise RuntimeError("'fit' trains once; make another HybridTrainer to train again")
        run, start, history = self._open(resume)
        log = EpochLog(run, self.config.epochs, self._verbose and self._accelerator.is_main_process, history)
        if start:
            log.say(f"resuming after epoch {start}")
        try:
            with Interrupt() as interrupt:
                for epoch in self._progress(range(start, self.config.epochs), "epochs"):
                    row = self._run_epoch(epoch, interrupt)
                    history.append(row)
                    self._save(run, epoch + 1, history)
                    log.add(row)
                final = self._finish(run, interrupt)
        except TrainingInterrupted:
            _note(run, "interrupted")
            raise
        except FloatingPointError:
            _note(run, "diverged")
            raise
        finally:
            log.close()
        return TrainingResult(self.model, self.data, history, final)

    def _make_network(self, backbone: str | nn.Module) -> nn.Module:
        """A network of the user's, or one by name with weights drawn from the seed."""
        if isinstance(backbone, nn.Module):
            return as_backbone(backbone)
        shape = self.dataset.images.shape
        return get_backbone(backbone, shape[1], self.dataset.num_classes, min(shape[2:]), seed=self.config.seed)

    def _open(self, resume: bool) -> tuple[RunFolder | None, int, list[Row]]:
        """The run folder (of the main process), the number of finished epochs and their rows."""
        if self._path is None:
            if resume:
                raise ValueError("'run' must name the folder to resume from, got None")
            return None, 0, []
        # Only the main process may look: it is also the one that makes the folder.
        going_on = from_main_process(self._accelerator, resume and (self._path / "run.json").exists())
        content = load_checkpoint(self._path / "checkpoint", self._settings) if going_on else None
        self._accelerator.wait_for_everyone()
        run = None
        if self._accelerator.is_main_process:
            run = self._own_folder(self._path, going_on, new=content is None)
        if content is None:
            self._save(run, 0, [])
            return run, 0, []
        self._restore(content)
        _note(run, "running")
        return run, content["epoch"], content["history"]

    def _own_folder(self, path: Path, going_on: bool, new: bool) -> RunFolder:
        """The folder of this run; that of another command is left alone, one without a checkpoint is begun anew."""
        if going_on:
            command = RunFolder.open(path).info["command"]
            if command != "train":
                raise ValueError(f"'run' must be a folder of 'train' to resume, '{path}' is one of '{command}'")
        if new:
            return RunFolder.create(path, "train", self._settings, self.config.seed, force=going_on)
        return RunFolder.open(path)

    def _restore(self, content: dict[str, Any]) -> None:
        """Brings network, optimiser, schedule and pseudo-labels to where a checkpoint left them."""
        self.model.load_state_dict(content["model"])
        self._optimizer.load_state_dict(content["optimizer"])
        self._scheduler.load_state_dict(content["scheduler"])
        if content["scaler"] is not None and self._accelerator.scaler is not None:
            self._accelerator.scaler.load_state_dict(content["scaler"])
        for name, value in content["pseudo"].items():
            self.data[name] = value
        self._u = content["u"]
        self._held_out = None if content["held_out"] is None else HeldOutCount(*content["held_out"])
        if self._untrained is not None and content["untrained"] is not None:  # a network of the user's may be trained
            self._untrained.load_state_dict(content["untrained"])

    def _save(self, run: RunFolder | None, epoch: int, history: list[Row]) -> None:
        """Writes the checkpoint of the main process after ``epoch`` epochs."""
        if run is None:
            return
        scaler = self._accelerator.scaler
        save_checkpoint(
            run.checkpoint,
            {
                "run": self._settings,
                "epoch": epoch,
                "model": self.model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "scheduler": self._scheduler.state_dict(),
                "scaler": None if scaler is None else scaler.state_dict(),
                "pseudo": {name: self.data[name] for name in _PSEUDO if self.data.get(name) is not None},
                "u": self._u,
                "held_out": None if self._held_out is None else [self._held_out.wrong, self._held_out.judged],
                "untrained": None if self._untrained is None else self._untrained.state_dict(),
                "history": history,
            },
        )

    def _run_epoch(self, epoch: int, interrupt: Interrupt) -> Row:
        """One epoch, and its row of the history."""
        self._epoch = epoch + 1
        self._leave_if_asked(interrupt)
        alternating = epoch >= self.config.warmup_epochs
        seconds = dict.fromkeys(("features", "graph", "energy", "network"), 0.0)
        if alternating and (epoch - self.config.warmup_epochs) % self.config.refresh_every == 0:
            seconds = self._refresh(interrupt)
        rate = self._scheduler.get_last_lr()[0]
        start = time.perf_counter()
        loss = self._train(epoch, alternating, interrupt)
        seconds["network"] += time.perf_counter() - start
        self._scheduler.step()
        row: Row = {"epoch": self._epoch, "phase": "hybrid" if alternating else "warm-up", "rate": rate, "loss": loss}
        row |= self._judge.epoch(self._test_logits(), self.data)
        row["num_pseudo"] = int(self.data.pseudo_mask.sum()) if "pseudo_mask" in self.data else 0
        return row | {f"{name}_seconds": value for name, value in seconds.items()}

    def _refresh(self, interrupt: Interrupt) -> dict[str, float]:
        """Features, graph, energy, pseudo-labels; returns the seconds of each."""
        seconds = dict.fromkeys(("features", "graph", "energy", "network"), 0.0)
        if self.energy == "none":
            return seconds
        if self.config.hold_out and self._held_out is None:
            start = time.perf_counter()
            self._held_out = self._ask_halves(interrupt)
            seconds["network"] = time.perf_counter() - start
        seconds |= self._label(interrupt)
        if self._held_out is not None:
            temper(self.data, self._held_out)
        return seconds

    def _label(self, interrupt: Interrupt) -> dict[str, float]:
        """New pseudo-labels, the same on all processes; returns the seconds that they took."""
        start = time.perf_counter()
        align = self.config.align_classes
        if self.energy == "network":
            logits = self._finite(self._inference.logits(self.dataset.train))
            labels_from_network(logits, self.data, self.dataset.num_classes, align)
            return {"features": time.perf_counter() - start}
        self.data.x = self._inference.features(self.dataset.train)
        seconds = {"features": time.perf_counter() - start}
        self._leave_if_asked(interrupt)
        if self._accelerator.is_main_process and isinstance(self.energy, EnergyModel):
            with warn_once(self._seen_warnings):
                run = labels_from_energy(
                    self.energy,
                    self.data,
                    self.dataset.num_classes,
                    self.config.k,
                    self._u if self.config.warm_start else None,
                    align,
                )
            seconds["graph"], seconds["energy"] = run.graph_seconds, run.energy_seconds
            self._u, self._energy_run = run.u if self.config.warm_start else None, run
        pseudo = {name: self.data.get(name) for name in _PSEUDO}
        for name, value in from_main_process(self._accelerator, pseudo).items():
            self.data[name] = value
        return seconds

    def _ask_halves(self, interrupt: Interrupt) -> HeldOutCount:
        """What two networks that know one half of the labels each say of the other half.

        They begin with the weights of the whole one and take as many steps as its warm-up, within which their learning
        rate falls to 0: they will learn nothing more.
        """
        assert self._untrained is not None
        passes = 2 * self.config.warmup_passes
        config = replace(self.config, epochs=self.config.warmup_epochs, warmup_passes=passes, hold_out=False)
        unseen = replace(self.dataset, test=self.dataset.test[:0])
        halves = halve_labels(self.data.y, self.data.train_mask, self.config.seed)
        # One of their own, so that the user's accelerator does not keep their networks, nor they its loss scale.
        accelerator = require("accelerate", extra="train").Accelerator(
            mixed_precision=self._accelerator.mixed_precision
        )
        count = HeldOutCount(0, 0)
        for half, other in (halves, halves[::-1]):
            trainer = HybridTrainer(
                unseen, half, copy.deepcopy(self._untrained), self.energy, config, None, accelerator
            )
            trainer._path = self._path  # what can go on after an interrupt, or after a loss that is no number
            for epoch in range(config.epochs):
                trainer._run_epoch(epoch, interrupt)
            trainer._refresh(interrupt)
            trainer._leave_if_asked(interrupt)
            count += count_wrong(trainer.data.pseudo_y, self.data.y, other & ~half)
        self._untrained = None
        return count

    def _train(self, epoch: int, alternating: bool, interrupt: Interrupt) -> float:
        """The steps of an epoch; returns their mean loss."""
        sampler, loss = self._sampler(alternating), self._loss(alternating)
        self._network.train()
        total = torch.zeros((), device=self._accelerator.device)
        with seeded_epoch(self.config.seed, epoch, self._accelerator) as generator:
            steps = self._progress(sampler.batches(epoch), f"epoch {epoch + 1}", total=len(sampler), leave=False)
            for step, batch in enumerate(steps, start=1):
                self._leave_if_asked(interrupt)
                if self.energy == "none":  # the same steps on the same labelled images
                    batch = replace(batch, pseudo=batch.pseudo[:0])
                total += self._train_step(batch, loss, generator)
                if step % _LOOK_EVERY == 0:
                    self._check_finite(total)
        share_buffers(self._accelerator, self._network)
        self._check_finite(total)
        # A last step may leave weights that only the next one would stumble over.
        self._check_finite(torch.stack([p.detach().abs().max() for p in self._network.parameters()]).sum())
        return float(mean_over_processes(self._accelerator, total)) / len(sampler)

    def _train_step(self, batch: MixedBatch, loss: HybridLoss, generator: torch.Generator) -> Tensor:
        """One step of the optimiser on the loss of the class docstring."""
        device, settings = self._accelerator.device, self.config
        index = torch.cat([batch.labelled, batch.pseudo])
        images = self.dataset.fetch(self.dataset.train[index]).to(device)
        pseudo_y = certainty = None
        if loss.pseudo_class_weight is not None:
            pseudo = self.data.pseudo_prob if settings.soft_targets else self.data.pseudo_y
            pseudo_y = pseudo[batch.pseudo]
            certainty = self.data.certainty[batch.pseudo] if settings.certainty_weight else None
        target = loss.targets(
            self.data.y[batch.labelled], pseudo_y, certainty, batch.labelled_divisor, batch.pseudo_divisor
        ).to(device)
        x, target = multi_sample(self._augment, images, target, settings.num_samples, generator)
        if settings.mixup_alpha is not None:
            x, target = mixup(x, target, settings.mixup_alpha, generator)
        self._optimizer.zero_grad()
        with self._accelerator.autocast():
            value = loss(self._network(x), target)
        self._accelerator.backward(value)
        self._optimizer.step()
        return value.detach()

    def _sampler(self, alternating: bool) -> MixedBatchSampler:
        """The batches of an epoch: labelled images alone, or mixed with all that have a pseudo-label."""
        pseudo = torch.empty(0, dtype=torch.long)
        if alternating:
            mask = ~self.data.train_mask if self.energy == "none" else self.data.pseudo_mask
            pseudo = mask.nonzero().view(-1)
        return MixedBatchSampler(
            self.data.train_mask.nonzero().view(-1),
            pseudo,
            batch_size=self.config.batch_size,
            labelled_per_batch=self.config.labelled_per_batch,
            supervised_passes=self.config.warmup_passes,
            seed=self.config.seed,
            num_processes=self._accelerator.num_processes,
            rank=self._accelerator.process_index,
        )

    def _loss(self, alternating: bool) -> HybridLoss:
        """The loss of an epoch, with the class weights of its labels and pseudo-labels."""
        num_classes, multi_label = self.dataset.num_classes, self.dataset.multi_label
        alternating = alternating and self.energy != "none"
        if not self.config.class_weight:
            equal = ClassWeights(torch.ones((2, num_classes) if multi_label else (num_classes,)))
            return HybridLoss(equal, equal if alternating else None, self.config.pseudo_weight)
        weight = ClassWeights.from_labels(self.data.y[self.data.train_mask], num_classes)
        if not alternating:
            return HybridLoss(weight)
        chosen = self.data.pseudo_mask
        if self.config.soft_targets:  # hard ones would hide how much of a rare class is in soft ones
            pseudo = ClassWeights.from_soft_labels(self.data.pseudo_prob[chosen], multi_label)
        else:
            pseudo = ClassWeights.from_labels(self.data.pseudo_y[chosen], num_classes)
        return HybridLoss(weight, pseudo, self.config.pseudo_weight)

    def _test_logits(self) -> Tensor | None:
        return self._finite(self._inference.logits(self.dataset.test)) if len(self.dataset.test) else None

    def _finite(self, logits: Tensor) -> Tensor:
        """Logits of a network that is still well."""
        self._check_finite(logits.abs().max())
        return logits

    def _leave_if_asked(self, interrupt: Interrupt) -> None:
        """Raise where any process was asked to stop: all of them leave at the same step."""
        signum = largest(self._accelerator, interrupt.signum)
        if signum:
            raise TrainingInterrupted(signum, self._checkpoint_path())

    def _check_finite(self, value: Tensor) -> None:
        """Raise where a loss, a weight or an output is not finite on any process."""
        if not bool(torch.isfinite(mean_over_processes(self._accelerator, value))):
            path = self._checkpoint_path()
            where = (
                "there is no run folder, so no checkpoint" if path is None else f"the last good checkpoint is '{path}'"
            )
            raise FloatingPointError(
                f"the loss, a weight or an output became {float(value)} in epoch {self._epoch}; {where}. A smaller "
                f"'learning_rate' than {self.config.learning_rate} may help"
            )

    def _checkpoint_path(self) -> Path | None:
        return None if self._path is None else self._path / "checkpoint" / FILE

    def _progress(self, items: Any, title: str, **options: Any) -> Any:
        """A bar with the time that is left, on a terminal and on the main process."""
        return tqdm(items, desc=title, disable=None if self._accelerator.is_main_process else True, **options)

    def _finish(self, run: RunFolder | None, interrupt: Interrupt) -> dict[str, Any]:
        """Pseudo-labels and metrics of the last model, and the files of the run."""
        self._leave_if_asked(interrupt)
        self._refresh(interrupt)
        final = self._judge.final(self._test_logits(), self.data)
        if run is None:
            return final
        with atomic_file(run.path / "final.json") as unfinished:
            unfinished.write_text(json.dumps(final, indent=2) + "\n", encoding="utf-8")
        if self.data.get("pseudo_y") is not None:
            write_result(run, self.dataset, self.data, self._energy_run)
        _note(run, "finished")
        return final

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.dataset.name}, {int(self.data.train_mask.sum())} labels, {self.energy})"
        )


def _note(run: RunFolder | None, status: str) -> None:
    """Writes the status of a run into its folder, on the process that has one."""
    if run is not None:
        run.finish(status)
