"""What the commands read: features of several formats, an image folder with a network, and a table of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tg_crepe._optional import require

if TYPE_CHECKING:
    from tg_crepe._labels import ClassRule
    from tg_crepe.datasets import ImageDataset
    from tg_crepe.embed import Source

#: The endings of a file of features.
FORMATS = (".npy", ".npz", ".pt", ".csv", ".parquet")


@dataclass(frozen=True)
class Features:
    """Rows of numbers, float32 of shape [num_nodes, num_features], their names, their images or the source that they
    were made of if they have some, the names of files that were left out, and the pretrained model."""

    x: np.ndarray
    ids: list[str]
    dataset: ImageDataset | None = None
    source: Source | None = None
    left_out: tuple[str, ...] = ()
    model: str | None = None


@dataclass(frozen=True)
class NodeLabels:
    """The number of its class for every node, -1 where it has none, the names of the classes, and whether some of the
    labels were asked for by an algorithm."""

    y: np.ndarray
    class_names: tuple[str, ...]
    asked: bool = False


def read_features(path: Path, leave_out: str | None = None) -> Features:
    """The features of a file, and the names of its rows: those of the file, or else 0, 1, 2, …; a column of a table may
    be left out."""
    from tg_crepe._files import check_unique, damaged_file

    if not path.is_file():
        raise FileNotFoundError(f"the file of features '{path}' is missing")
    readers = {".npy": _read_npy, ".npz": _read_npz, ".pt": _read_pt, ".csv": _read_table, ".parquet": _read_table}
    if path.suffix.lower() not in readers:
        raise damaged_file(path, f"its name must end in one of {', '.join(FORMATS)}, or it must be a folder of images")
    x, ids = _read_table(path, leave_out) if leave_out is not None else readers[path.suffix.lower()](path)
    if x.ndim != 2 or x.size == 0:
        raise damaged_file(path, f"it must hold a row of numbers for every item, got an array of shape {list(x.shape)}")
    if x.dtype.kind not in "fiub":
        raise damaged_file(path, f"it must hold real numbers, got {x.dtype}")
    x = x.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    names = [str(i) for i in range(len(x))] if ids is None else [str(name) for name in ids]
    if len(names) != len(x):
        raise damaged_file(path, f"it must name every one of its {len(x)} rows, got {len(names)} names")
    if len(bad):
        raise damaged_file(
            path, f"{len(bad)} row(s) hold NaN, infinity or too large a number, the first is '{names[bad[0]]}'"
        )
    check_unique(path, "the id", names)
    return Features(x, names)


def _read_npy(path: Path) -> tuple[np.ndarray, None]:
    from tg_crepe._files import damaged_file

    try:
        return np.load(path, allow_pickle=False), None
    except (ValueError, OSError, EOFError) as error:
        raise damaged_file(path, f"it is not a whole .npy file of numbers ({error})") from error


def _read_npz(path: Path) -> tuple[np.ndarray, Any]:
    from tg_crepe._files import damaged_file, read_arrays

    arrays = read_arrays(path, ())
    others = [name for name in arrays if name not in ("x", "ids", "made")]
    if "x" not in arrays and len(others) != 1:
        found = ", ".join(arrays) or "none"
        raise damaged_file(path, f"it must hold the features as the array 'x' (and their names as 'ids'), got {found}")
    return arrays["x" if "x" in arrays else others[0]], arrays.get("ids")


def _read_pt(path: Path) -> tuple[np.ndarray, Any]:
    import torch
    from torch import Tensor

    from tg_crepe._files import damaged_file

    content = _load_weights(path)
    ids = content.get("ids") if isinstance(content, dict) else None
    x = content.get("x") if isinstance(content, dict) else content
    if not isinstance(x, Tensor) or x.layout != torch.strided:
        raise damaged_file(path, "it must hold a dense tensor, or a dictionary with a tensor 'x' and names 'ids'")
    if x.numel() * x.element_size() > x.untyped_storage().nbytes():
        raise damaged_file(path, f"its tensor of shape {list(x.shape)} is made of fewer numbers than it shows")
    ids = ids.tolist() if isinstance(ids, Tensor) else ids
    if ids is not None and not (isinstance(ids, list | tuple) and all(isinstance(name, str | int) for name in ids)):
        raise damaged_file(path, f"'ids' must be a list of names, got {type(ids).__name__}")
    return x.detach().cpu().float().numpy(), ids


def _load_weights(path: Path) -> Any:
    """What ``torch.save`` has written, tensors and plain values alone."""
    import torch

    from tg_crepe._files import check_unfolded, damaged_file

    check_unfolded(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # a damaged file raises whatever the reader of its first bad byte likes
        raise damaged_file(path, f"it is not a whole file of tensors ({type(error).__name__})") from error


def _read_table(path: Path, leave_out: str | None = None) -> tuple[np.ndarray, Any]:
    """A csv or parquet file: a column ``id`` if there is one, and columns of numbers, or one of lists of numbers."""
    from tg_crepe._files import damaged_file, id_column

    pyarrow = require("pyarrow", extra="cli")
    try:
        table = _read_csv(path) if path.suffix.lower() == ".csv" else _read_parquet(path)
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        if "UTF8" in reason:
            reason = "it is not UTF-8 text; save it as UTF-8 (in a spreadsheet: CSV UTF-8)"
        raise damaged_file(path, f"it is not a whole {path.suffix[1:]} file ({reason})") from error
    if len(set(table.column_names)) < len(table.column_names):
        raise damaged_file(path, f"two of its columns have the same name: {', '.join(table.column_names[:10])}")
    own = id_column(path, table.column_names)
    names = [name for name in table.column_names if name not in (own, leave_out)]
    kind = pyarrow.types
    for name in names:
        if table.column(name).null_count:
            raise damaged_file(path, f"column '{name}' has {table.column(name).null_count} blank cell(s)")
    if lists := [name for name in names if kind.is_list(t := table.column(name).type) or kind.is_fixed_size_list(t)]:
        x = _read_lists(path, table, lists, names)
    else:
        x = np.empty((table.num_rows, len(names)), np.float32)
        for place, name in enumerate(names):
            column = table.column(name)
            if not (kind.is_floating(column.type) or kind.is_integer(column.type) or kind.is_boolean(column.type)):
                raise damaged_file(
                    path, f"column '{name}' must hold numbers, got {column.type} (a column of texts: --text {name})"
                )
            with np.errstate(over="ignore"):  # what becomes infinite is named with its row later
                x[:, place] = column.to_numpy()
    if own is None:
        return x, None
    if table.column(own).null_count:
        raise damaged_file(path, f"column '{own}' has {table.column(own).null_count} blank cell(s)")
    return x, table.column(own).to_pylist()


def _read_csv(path: Path) -> Any:
    """A csv file as pyarrow reads it; semicolons or tabs where the first line has no comma, as spreadsheets do."""
    import csv

    from tg_crepe._files import delimiter_of, id_column

    pyarrow, reader = require("pyarrow", extra="cli"), require("pyarrow.csv", extra="cli")
    with path.open("rb") as file:
        header, first = file.readline().decode("utf-8-sig", "replace"), file.readline()
    mark = delimiter_of(header)
    own = id_column(path, next(csv.reader([header.rstrip("\r\n")], delimiter=mark), []))
    # Names stay text: a number would lose its leading zeros.
    convert: dict[str, Any] = {} if own is None else {"column_types": {own: pyarrow.string()}}
    if mark != "," and b"," in first:
        convert["decimal_point"] = ","
    return reader.read_csv(
        path, parse_options=reader.ParseOptions(delimiter=mark), convert_options=reader.ConvertOptions(**convert)
    )


def _read_parquet(path: Path) -> Any:
    return require("pyarrow.parquet", extra="cli").read_table(path)


def _read_lists(path: Path, table: Any, lists: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """One column of lists of numbers, all of one length, as Hugging Face's data sets have it."""
    from tg_crepe._files import damaged_file

    if len(names) > 1:
        others = ", ".join(name for name in names if name != lists[0])
        raise damaged_file(path, f"beside the lists of '{lists[0]}' it must have the column id alone, got {others}")
    column = table.column(lists[0]).combine_chunks()
    values = column.flatten()
    lengths = (
        set(np.diff(column.offsets.to_numpy()).tolist()) if hasattr(column, "offsets") else {column.type.list_size}
    )
    if len(lengths) != 1 or values.null_count or np.dtype(values.type.to_pandas_dtype()).kind not in "fiub":
        raise damaged_file(path, f"column '{lists[0]}' must hold lists of numbers, all of one length")
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float32).reshape(len(column), -1)


def read_labels(
    paths: Sequence[Path], ids: Sequence[str], left_out: Sequence[str] = (), rule: ClassRule | None = None
) -> NodeLabels:
    """The labels of tables ``id,label``, together; a blank label, or no row, leaves a node unlabelled.

    A table may say in a column ``asked`` which rows an algorithm asked for, as that of label-next does. It may have
    rows for what was ``left_out``.

    Args:
        paths (list): The tables.
        ids (list): The names of the nodes.
        left_out (list, optional): Names that are none of the nodes and may stand there. (default: none)
        rule (ClassRule, optional): Which names of classes are taken. (default: all but slips)
    """
    from tg_crepe._labels import ClassRule, check_two_classes, read_label_tables
    from tg_crepe.datasets.image_folder import _sorted_classes

    rule = ClassRule() if rule is None else rule
    table = read_label_tables(paths, ids, left_out=frozenset(left_out))
    given = set(table.label_of.values())
    rule.check(paths[-1], table.label_of.values())
    class_names = _sorted_classes(given if rule.classes is None else set(rule.classes))
    check_two_classes(paths[-1], given)
    return NodeLabels(_numbers(table.label_of, ids, class_names), class_names, table.asked)


def read_truth(
    truth: str, labels: Path | None, ids: Sequence[str], class_names: Sequence[str], left_out: Sequence[str] = ()
) -> np.ndarray:
    """The number of the true class of every node, -1 where it is not known.

    Args:
        truth (str): A table ``id,label``, or the name of a column of the table of labels.
        labels (Path, optional): The table of labels.
        ids (list): The names of the nodes.
        class_names (list): The classes that have labels; no other can be predicted.
        left_out (list, optional): Names that are none of the nodes and may stand there. (default: none)
    """
    from tg_crepe._files import damaged_file
    from tg_crepe._labels import read_label_table

    path, column = Path(truth), "label"
    if not path.is_file():
        if labels is None or path.suffix.lower() == ".csv":
            raise FileNotFoundError(f"the table of true labels '{truth}' is missing")
        path, column = labels, truth
    truth_of = read_label_table(path, {*ids, *left_out}, column).label_of
    if not truth_of:
        raise damaged_file(path, f"column '{column}' must hold a true label at least, got none")
    if unknown := sorted(set(truth_of.values()) - set(class_names)):
        raise damaged_file(
            path,
            f"the true label '{unknown[0]}' is none of the classes that have labels ({', '.join(class_names)}) and "
            "could never be predicted; label one of its rows, or leave the truth of them blank",
        )
    return _numbers(truth_of, ids, class_names)


def _numbers(label_of: dict[str, str], ids: Sequence[str], class_names: Sequence[str]) -> np.ndarray:
    """The number of the class of every node, -1 where it has none."""
    place_of = {name: place for place, name in enumerate(class_names)}
    return np.array([place_of[label_of[name]] if name in label_of else -1 for name in ids])


def read_images(folder: Path, backbone: str, checkpoint: Path, size: int | None, channels: int) -> Features:
    """The features of all images of a folder, by a network and its weights."""
    import torch

    from tg_crepe.datasets import load_image_folder
    from tg_crepe.training import Augment, extract_features

    dataset = load_image_folder(folder, size, channels)
    network = _load_network(backbone, checkpoint, channels, min(dataset.images.shape[2:]))
    prepare = Augment.preset("none", dataset.mean, dataset.std)
    index = torch.arange(len(dataset)).split(256)
    x = extract_features(network, (dataset.fetch(part) for part in index), prepare)
    return Features(x.numpy(), list(dataset.ids), dataset)


def _load_network(backbone: str, checkpoint: Path, channels: int, size: int) -> Any:
    """A network with the weights of a file: those of ``train``, or a plain ``state_dict``."""
    from tg_crepe._files import damaged_file
    from tg_crepe.nn import get_backbone

    if not checkpoint.is_file():
        raise FileNotFoundError(f"the checkpoint '{checkpoint}' is missing")
    content = _load_weights(checkpoint)
    weights = content.get("model", content) if isinstance(content, dict) else content
    if isinstance(weights, dict) and "fc.weight" in weights and backbone == "resnet18":  # torchvision's own names
        weights = {
            key.replace("fc.", "head.") if key.startswith("fc.") else f"body.{key}": value
            for key, value in weights.items()
        }
    if not isinstance(weights, dict) or "head.weight" not in weights:
        raise damaged_file(checkpoint, f"it holds no weights of the backbone '{backbone}'")
    network = get_backbone(backbone, channels, len(weights["head.weight"]), size)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise damaged_file(
            checkpoint, f"its weights do not fit '{backbone}' with {channels} channel(s) ({reason})"
        ) from error
    return network


def labels_of_folders(features: Features, folder: Path) -> NodeLabels:
    """The labels that the folders of an image folder give."""
    dataset = features.dataset
    if dataset is None and features.source is not None and folder.is_dir():
        from tg_crepe.datasets import load_image_folder

        dataset = load_image_folder(folder, 1)  # for its classes: no image is read
    if dataset is None or dataset.num_classes < 2:
        raise ValueError("'--labels' must name a table id,label, got none")
    class_of = dict(zip(dataset.ids, dataset.targets.tolist(), strict=True))
    return NodeLabels(np.array([class_of.get(name, -1) for name in features.ids]), dataset.class_names)
