"""What a worker of ``hybrid`` does: it trains once and writes down what network and energy knew in every epoch."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hybrid.cases import Case, Setting
from shared.fingerprint import fingerprint
from shared.grid import Cell, Job, Value
from shared.splits import Split, choose_labels
from torch import Tensor, nn
from torch_geometric.data import Data

from tg_crepe import ConvergenceWarning, GraphWarning
from tg_crepe.datasets import ImageDataset, RandomLabelSplit
from tg_crepe.inference.soft_labels import certainty, relative_weights
from tg_crepe.nn import get_backbone
from tg_crepe.training import (
    Augment,
    Callback,
    HybridTrainer,
    MixedBatch,
    NetworkLabels,
    TrainingConfig,
    area_under_curve,
    error_rate,
    expected_calibration_error,
    extract_features,
    fit_temperature,
)

Row = dict[str, Value]

#: Bins of the certainty of right and of wrong pseudo-labels.
BINS = 10

#: What is known of a moment at which pseudo-labels are made; empty where there is no such thing.
LOOK = (
    "pseudo_error",  # of what the network learns from, in per cent
    "network_error",  # of the network's own predictions for the same images, in per cent
    "energy_auc",
    "network_auc",
    "energy_ece",  # the paper's soft labels, in per cent
    "energy_ece_fitted",  # their calibrated form
    "network_ece",
    "network_ece_fitted",  # after a temperature that is fitted to labelled images
    "temperature",
    "right",  # how many of the right pseudo-labels have a certainty in each of ten bins
    "wrong",
    "network_right",
    "network_wrong",
)

#: The rest of a row.
EPOCH = ("epoch", "phase", "steps", "loss", "test_error", "test_auc", "test_ece", "test_ece_fitted", "auc_per_class")
SECONDS = ("features_seconds", "graph_seconds", "energy_seconds", "network_seconds", "cpu_seconds")


def make_cell(case: Case, source: str, piece: str, seed: int) -> Cell:
    """The cell of a run."""
    point: dict[str, Value] = {
        "data": case.data,
        "percent": case.percent,
        "images": case.setting.images,
        "everything": int(case.everything),
        "source": source,
        "piece": piece,
        "seed": seed,
    }
    modules = [] if source in ("none", "network") else [f"tg_crepe.models.{source}"]
    code = fingerprint("hybrid.job") + fingerprint("tg_crepe.training.trainer", "tg_crepe.nn.small_cnn", *modules)
    settings = f"{case.setting} {case.config(piece, seed)} {code}"
    return Cell(point, json.dumps({"setting": asdict(case.setting), "code": settings}), case.expected(source, piece))


def read_case(cell: Cell) -> Case:
    """The case of a cell."""
    setting = Setting(**json.loads(cell.settings)["setting"])
    point = cell.point
    return Case(str(point["data"]), float(point["percent"]), setting, bool(point["everything"]))


class Remembering(nn.Module):
    """A network that keeps the features it gives in evaluation mode, so that a look at its outputs costs no pass.

    Its convolutions are computed in bfloat16, which takes two thirds of the time on a processor with instructions for
    it; weights, features and outputs are float32.

    Args:
        network (torch.nn.Module): The network.
    """

    network: Any

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.seen: list[Tensor] = []

    def features(self, x: Tensor) -> Tensor:
        """The features of the network."""
        with torch.autocast(x.device.type, torch.bfloat16):
            found: Tensor = self.network.features(x).float()
        if not self.training:
            self.seen.append(found.detach())
        return found

    def head(self, features: Tensor) -> Tensor:
        """The head of the network."""
        logits: Tensor = self.network.head(features)
        return logits

    @torch.no_grad()
    def logits(self) -> Tensor:
        """The outputs for all images since :obj:`seen` was emptied."""
        return self.head(torch.cat(self.seen)).float()

    def forward(self, x: Tensor) -> Tensor:
        """The outputs for some images."""
        return self.head(self.features(x))


class Watch(Callback):
    """Compares network and energy whenever pseudo-labels are made.

    Args:
        network (Remembering): The network.
    """

    def __init__(self, network: Remembering) -> None:
        self.network = network
        self.looks: list[Row] = []  # one per set of pseudo-labels; the last is that of the finished network
        self.steps: dict[int, int] = {}  # by epoch

    def on_labels_end(self, trainer: HybridTrainer) -> None:
        """Looks at what the pseudo-labels were made of."""
        if self.network.seen:
            u = trainer.data.propagation.u if "propagation" in trainer.data else None
            row = look(self.network.logits(), trainer.data, trainer.dataset, u)
            self.looks.append({"epoch": trainer.epoch} | row)

    def on_batch_end(self, trainer: HybridTrainer, batch: MixedBatch, loss: Tensor) -> None:
        """Counts the steps."""
        self.steps[trainer.epoch] = self.steps.get(trainer.epoch, 0) + 1

    def on_epoch_end(self, trainer: HybridTrainer) -> None:
        """Forgets the features of the test images."""
        self.network.seen.clear()


def make_trainer(
    dataset: ImageDataset, mask: Tensor, source: str, config: TrainingConfig
) -> tuple[HybridTrainer, Watch]:
    """A trainer of the small network, whose first weights follow from the seed alone, and what watches it."""
    shape = dataset.images.shape
    small = get_backbone("small_cnn", shape[1], dataset.num_classes, min(shape[2:]), seed=config.seed)
    watch = Watch(Remembering(small.to(memory_format=torch.channels_last)))  # a quarter quicker on a processor
    return HybridTrainer(dataset, mask, watch.network, source, config, callbacks=[watch]), watch


def _per_cent(value: float | None) -> Value:
    return "" if value is None else 100 * value


def _histogram(values: Tensor) -> str:
    counts, _ = np.histogram(values.double().clamp(0, 1).numpy(), np.linspace(0, 1, BINS + 1))
    return " ".join(map(str, counts))


def _probability(logits: Tensor, multi_label: bool) -> Tensor:
    return logits.double().sigmoid() if multi_label else logits.double().softmax(dim=1)


def look(logits: Tensor, data: Data, dataset: ImageDataset, u: Tensor | None) -> Row:
    """What network and energy say of the images that have a pseudo-label, against the truth.

    Args:
        logits (torch.Tensor): The outputs for all training images, of shape :obj:`[num_images, num_classes]`.
        data (Data): The state of the epoch.
        dataset (ImageDataset): The truth.
        u (torch.Tensor, optional): The class functions of the energy; :obj:`None` where the network is the source.
    """
    multi_label, chosen = dataset.multi_label, data.pseudo_mask
    truth = dataset.targets[dataset.train]
    temperature = fit_temperature(logits[data.train_mask], truth[data.train_mask])
    prob, fitted = (_probability(x, multi_label)[chosen] for x in (logits, logits / temperature))
    truth = truth[chosen]
    row: Row = dict.fromkeys(LOOK, "")
    row["temperature"] = temperature
    row["network_error"] = _per_cent(error_rate(prob, truth))
    row["network_auc"] = _per_cent(area_under_curve(prob, truth).average)
    row["network_ece"] = _per_cent(expected_calibration_error(prob, truth))
    row["network_ece_fitted"] = _per_cent(expected_calibration_error(fitted, truth))
    wrong = (data.pseudo_y[chosen] != truth).double()
    row["pseudo_error"] = 100 * float(wrong.mean())
    if not multi_label:
        bad, sure = prob.argmax(dim=1) != truth, certainty(prob, multi_label)
        row["network_right"], row["network_wrong"] = _histogram(sure[~bad]), _histogram(sure[bad])
        bad, sure = wrong > 0, data.certainty[chosen]
        row["right"], row["wrong"] = _histogram(sure[~bad]), _histogram(sure[bad])
    if u is not None:
        calibrated = data.pseudo_prob[chosen].double().clamp(0, 1)
        row["energy_auc"] = _per_cent(area_under_curve(calibrated, truth).average)
        row["energy_ece"] = _per_cent(expected_calibration_error(relative_weights(u[chosen], multi_label), truth))
        row["energy_ece_fitted"] = _per_cent(expected_calibration_error(calibrated, truth))
    return row


def make_job(threads: int, features: Path | None = None) -> Job:
    """The job of a worker.

    Args:
        threads (int): How many threads this worker may use.
        features (Path, optional): A folder that gets the features of the training images. (default: :obj:`None`)
    """
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore", GraphWarning)  # images that no label reaches are counted by the trainer
    warnings.simplefilter("ignore", ConvergenceWarning)

    def job(cell: Cell) -> list[Row]:
        return run_cell(cell, features)

    return job


def run_cell(cell: Cell, features: Path | None = None) -> list[Row]:
    """Trains once; a row an epoch, and one for the last model on all test images."""
    case, point = read_case(cell), cell.point
    seed, source = int(point["seed"]), str(point["source"])
    dataset = case.load()
    mask = draw_labels(case, dataset, seed)
    start = time.process_time()
    watched = replace(dataset, test=dataset.test[: case.setting.watched])
    trainer, watch = make_trainer(watched, mask, source, case.config(str(point["piece"]), seed))
    history = trainer.fit().history
    cpu_seconds = time.process_time() - start
    rows = [_epoch_row(found, watch) for found in history]
    model = watch.network.eval()
    last = watch.looks[-1] if watch.looks else look_of_supervised(model, trainer.data, dataset)
    final: Row = {"epoch": len(history), "phase": "final", "steps": sum(watch.steps.values())}
    final |= {name: sum(float(row[name]) for row in rows) for name in SECONDS if name != "cpu_seconds"}
    final |= {"cpu_seconds": cpu_seconds}
    if len(dataset.test):
        final |= judge(model, dataset, mask)
    if features is not None:
        save_features(model, dataset, features / f"{features_name(cell)}.npz")
    return [*rows, _empty() | last | final]


def _epoch_row(found: Mapping[str, Any], watch: Watch) -> Row:
    """A row of the trainer's history with what was seen when its pseudo-labels were made."""
    looks = {row["epoch"]: row for row in watch.looks[:-1]}
    row = _empty() | looks.get(found["epoch"], {})
    row |= {name: found[name] for name in ("epoch", "phase", "loss", *SECONDS) if name in found}
    return row | {"steps": watch.steps[found["epoch"]], "test_error": _per_cent(found["error"])}


def look_of_supervised(model: nn.Module, data: Data, dataset: ImageDataset) -> Row:
    """What a network says of the images without a label that it has never seen."""
    logits = outputs_of(model, dataset, dataset.train)
    seen = Data(y=data.y, train_mask=data.train_mask, logits=logits)
    return look(logits, NetworkLabels().label(seen), dataset, None)


def _empty() -> Row:
    return dict.fromkeys((*EPOCH, *LOOK, *SECONDS), "")


def draw_labels(case: Case, dataset: ImageDataset, seed: int) -> Tensor:
    """Which training images are labelled, bool of shape [num_images]: a function of data, share and seed alone."""
    if case.everything:
        return choose_labels(dataset.targets[dataset.train], Split("share", case.percent / 100), seed)
    return RandomLabelSplit(case.percent, "percent", seed=seed).draw(dataset).train_mask


@torch.no_grad()
def outputs_of(model: nn.Module, dataset: ImageDataset, index: Tensor) -> Tensor:
    """The outputs of a network in evaluation mode for some images."""
    prepare = Augment.preset("none", dataset.mean, dataset.std)
    return torch.cat([model(prepare(dataset.fetch(part))) for part in index.split(512)])


def judge(model: nn.Module, dataset: ImageDataset, mask: Tensor) -> Row:
    """The last model on all test images; its temperature comes from the labelled images."""
    logits, truth = outputs_of(model, dataset, dataset.test), dataset.targets[dataset.test]
    labelled = dataset.train[mask]
    temperature = fit_temperature(outputs_of(model, dataset, labelled), dataset.targets[labelled])
    prob, fitted = (_probability(x, dataset.multi_label) for x in (logits, logits / temperature))
    area = area_under_curve(prob, truth)
    names = {dataset.class_names[k]: round(100 * value, 3) for k, value in area.per_class.items()}
    return {
        "test_error": _per_cent(error_rate(prob, truth)),
        "test_auc": _per_cent(area.average),
        "test_ece": _per_cent(expected_calibration_error(prob, truth)),
        "test_ece_fitted": _per_cent(expected_calibration_error(fitted, truth)),
        "auc_per_class": json.dumps(names) if dataset.multi_label else "",
    }


def features_name(cell: Cell) -> str:
    """The name of a file of features, without its ending."""
    point = cell.point
    return f"{point['data']}_{point['source']}_{point['percent']:g}_seed{point['seed']}"


def save_features(model: nn.Module, dataset: ImageDataset, path: Path) -> None:
    """Writes the features of all training images with their classes, as ``benchmarks/table1 --features`` reads them."""
    prepare = Augment.preset("none", dataset.mean, dataset.std)
    batches = (dataset.fetch(part) for part in dataset.train.split(512))
    x = extract_features(model, batches, prepare)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        np.savez(file, x=x.numpy(), y=dataset.targets[dataset.train].numpy())
    temporary.replace(path)
