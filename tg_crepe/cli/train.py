from __future__ import annotations

import os
import shutil
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tg_crepe.cli._options import Classes, DidNotConverge, Force, Json, NewClass, class_rule
from tg_crepe.cli._outputs import show_json, tell_loudly
from tg_crepe.runs.verdict import POOR, POOR_SHARE, UNKNOWN_ERROR

if TYPE_CHECKING:
    from torch import Tensor

    from tg_crepe._labels import ClassRule
    from tg_crepe.datasets import ImageDataset, LabelSplit
    from tg_crepe.training import Preset

#: Data sets that are read file by file, to the size of the preset.
_SIZED = ("mini_imagenet", "chestxray14", "cbis_ddsm")


def train(
    ctx: typer.Context,
    data: Annotated[
        str,
        typer.Argument(metavar="DATASET|FOLDER", help="digits, fashion_mnist, …, your images, or a project of label."),
    ],
    run: Annotated[
        Path | None, typer.Option("--run", "-o", metavar="DIR", help="The run's folder (runs/DATA-PRESET-ENERGY-SEED).")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Where the data set's files are (TG_CREPE_DATA).")] = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option(help="A csv file id,label for a flat folder of images. May be given several times."),
    ] = None,
    classes: Classes = None,
    new_class: NewClass = False,
    num_labels: Annotated[
        float | None, typer.Option(help="How many labels, in the preset's unit; those of a folder: all.")
    ] = None,
    preset: Annotated[str, typer.Option(help="cpu (small), paper or paper_wrn.")] = "cpu",
    energy: Annotated[
        str, typer.Option(help="The method: crepe, lgc, …; network or none for the baselines.")
    ] = "crepe",
    backbone: Annotated[
        str | None, typer.Option(help="The network (the preset's), or a pretrained one: timm:NAME, torchvision:NAME.")
    ] = None,
    fine_tune: Annotated[
        bool, typer.Option("--fine-tune", help="A pretrained network (--backbone timm:NAME) learns too.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="The number of epochs (the preset's).")] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Pixels per side for images in files (the preset's).")] = None,
    hold_out: Annotated[
        bool, typer.Option("--hold-out", help="Ask two networks of half the labels how sure pseudo-labels may be.")
    ] = False,
    soft_targets: Annotated[
        bool, typer.Option("--soft-targets", help="Learn the probabilities of pseudo-labels, not their classes.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the split, the weights and the order.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the run's folder.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train a network on few labels and the pseudo-labels of a method, in turns; all of it stays in the run's folder.

    Ctrl-C keeps the last checkpoint; --resume goes on from there. Exit code 1: training diverged.

    Example: tg-crepe train digits --run run
    """
    from tg_crepe.runs import check_free
    from tg_crepe.training import HybridTrainer, TrainingInterrupted, get_preset

    _check_names(labels, class_rule(classes, new_class))
    settings = _with_options(get_preset(_key(data), preset), num_labels, backbone, epochs, size, seed)
    switched: dict[str, Any] = {"hold_out": True} if hold_out else {}
    switched |= {"soft_targets": True} if soft_targets else {}
    switched |= {"fine_tune": True} if fine_tune else {}
    settings = replace(settings, config=replace(settings.config, **switched))
    folder = run or Path("runs", f"{Path(data).stem}-{preset}-{energy}-{seed}")
    if not resume:
        check_free(folder, force, whole=True)
    progress: Console = ctx.obj
    with progress.status("reading images"):
        dataset = _load(data, root, labels, settings.size)
        split = _labelled(data, dataset, settings, num_labels, seed)
        dataset = dataset.in_memory()
    trainer = HybridTrainer(dataset, split, settings.backbone, energy, settings.config, verbose=True, run=folder)
    if force and not resume and folder.exists():
        shutil.rmtree(folder)  # an earlier run, as was checked above
    start = time.perf_counter()
    try:
        final = trainer.fit(resume=resume).final
    except TrainingInterrupted as stop:
        progress.print(f"{stop}; --resume goes on", highlight=False, soft_wrap=True, markup=False)
        raise typer.Exit(128 + stop.signum) from None
    except FloatingPointError as error:
        progress.print(str(error), highlight=False, soft_wrap=True, markup=False)
        raise DidNotConverge from None
    own = Path(data).is_dir() and (backbone is None or ":" not in backbone)
    advice = _advice(data, labels) if own else None
    _tell(final, dataset, folder, time.perf_counter() - start, as_json, advice)


def _advice(data: str, labels: list[Path] | None) -> str:
    """For a network that began from nothing, which few labels cannot teach much."""
    tables = "".join(f" --labels {table}" for table in labels or [])
    return (
        "a network from scratch learns little from few labels; compare with a pretrained one: "
        f"tg-crepe propagate {data}{tables} --model timm:tf_efficientnet_lite0 -o pseudo.csv"
    )


def _check_names(labels: list[Path] | None, rule: ClassRule) -> None:
    """Raise before any work where a table names a class that there is not, one that looks like a slip, or too few."""
    from tg_crepe._labels import check_two_classes, read_label_tables

    if labels is None:
        if rule.classes is not None:
            raise typer.BadParameter("it goes with --labels", param_hint="'--classes'")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tables are read again with the images
        given = read_label_tables(labels).label_of.values()
    rule.check(labels[-1], given)
    check_two_classes(labels[-1], given)


def _key(data: str) -> str:
    """The name that the presets know."""
    from tg_crepe.datasets import DATASETS

    if data not in DATASETS or data in ("image_folder", "npz"):
        return "custom"
    if Path(data, "project.json").is_file():
        raise ValueError(f"'{data}' must be ./{data} for the project of tg-crepe label here; it is a data set as well")
    return data


def _with_options(
    preset: Preset,
    num_labels: float | None,
    backbone: str | None,
    epochs: int | None,
    size: int | None,
    seed: int,
) -> Preset:
    """The preset with what the user has chosen otherwise."""
    config = replace(preset.config, seed=seed)
    if epochs is not None:
        config = replace(config, epochs=epochs, warmup_epochs=min(config.warmup_epochs, epochs))
    changes: dict[str, Any] = {"config": config}
    if num_labels is not None:
        changes["labels"] = int(num_labels) if float(num_labels).is_integer() else num_labels
    if backbone is not None:
        changes["backbone"] = backbone
    if size is not None:
        changes["size"] = size
    return replace(preset, **changes)


def _load(data: str, root: Path | None, labels: list[Path] | None, size: int | None) -> ImageDataset:
    """A data set by name, a .npz file, or a folder of images."""
    from tg_crepe.datasets import DATASETS, get_dataset, load_image_folder, load_npz

    if _key(data) != "custom":
        where = root or os.environ.get("TG_CREPE_DATA")
        if data != "digits" and where is None:
            raise ValueError(f"'--root' or TG_CREPE_DATA must say where the files of '{data}' are, got neither")
        options = {"size": size} if data in _SIZED and size is not None else {}
        return get_dataset(data, None if data == "digits" else where, **options)
    path = Path(data)
    if (path / "project.json").is_file():
        return _load_project(path, size)
    if path.suffix == ".npz" and path.is_file():
        return load_npz(path)
    if not path.is_dir():
        known = ", ".join(name for name in DATASETS if name not in ("image_folder", "npz"))
        raise ValueError(f"'{data}' must be a folder of images, a .npz file or one of {known}")
    return load_image_folder(path, size, labels=labels)


def _load_project(path: Path, size: int | None) -> ImageDataset:
    """The images of a project of ``tg-crepe label``, with the labels that were given."""
    from tg_crepe._unfinished import temporary_folder
    from tg_crepe.cli._outputs import write_columns
    from tg_crepe.datasets import load_image_folder
    from tg_crepe.label import Project
    from tg_crepe.label.exports import labels_of_project

    project = Project.open(path)
    folder = Path(project.info.get("show") or "")
    if not project.info.get("show") or not folder.is_dir():
        raise ValueError(f"'{path}' must be a project of a folder of images to train on, got one of {project.source}")
    y, names = labels_of_project(project)
    columns = {"id": project.ids, "label": ["" if number < 0 else names[number] for number in y]}
    with temporary_folder() as place:
        table = place / "labels.csv"
        write_columns(columns, table)
        return load_image_folder(folder, size, labels=table)


def _labelled(
    data: str, dataset: ImageDataset, preset: Preset, num_labels: float | None, seed: int
) -> LabelSplit | Tensor:
    """A draw of the labels, or all that the user's own images have."""
    from tg_crepe.datasets import RandomLabelSplit

    known = (dataset.targets[dataset.train] >= 0).view(len(dataset.train), -1).any(dim=1)
    if _key(data) != "custom" or num_labels is not None:
        unit = preset.unit if _key(data) != "custom" else "total"
        return RandomLabelSplit(preset.labels, unit, seed=seed).draw(dataset)
    if bool(known.all()):
        raise ValueError(f"every image of '{data}' is labelled: --num-labels says how many of the labels to use")
    return known


def _tell(
    final: dict[str, Any], dataset: ImageDataset, folder: Path, seconds: float, as_json: bool, advice: str | None
) -> None:
    """The metrics of the last model, for a person or for a machine, and what to do next."""
    pseudo = (folder / "result.npz").is_file()
    if as_json:
        show_json({"dataset": dataset.name, "run": str(folder), "seconds": round(seconds, 3), "final": final})
        return
    for key, title in (("error", "test error"), ("auc", "test AUC"), ("pseudo_error", "pseudo-label error")):
        if final.get(key) is not None:
            typer.echo(f"{title}: {100 * final[key]:.2f} %")
    typer.echo(f"run in {folder} ({seconds:.0f} s)")
    if pseudo and final.get("pseudo_error") is None:
        tell_loudly(UNKNOWN_ERROR)
        if advice is not None:
            typer.echo(advice)
    elif pseudo and final["pseudo_error"] > POOR_SHARE:
        tell_loudly(POOR)
    more = f", or tg-crepe label-next {folder} -o to-label.csv" if pseudo else ""
    typer.echo(f"next: tg-crepe report {folder}{more}")
