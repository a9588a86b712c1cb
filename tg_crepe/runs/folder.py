"""A run on disk: one folder that ``propagate`` and ``train`` write, and that ``report`` and ``label-next`` read."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe import __version__
from tg_crepe._files import atomic_file, atomic_folder, damaged_file, read_arrays, read_text
from tg_crepe.runs.check_arrays import check_graph, check_info, check_kept, check_result
from tg_crepe.runs.command_line import current_command_line

#: The layout of the folder; a reader refuses a folder of another one.
FORMAT = 1

_INFO = "run.json"
#: The files that a run may have.
RUN_FILES = (_INFO, "trace.csv", "metrics.csv", "result.npz", "graph.npz", "thumbnails.npz", "snippets.npz")
_PACKAGES = ("torch", "torch-geometric", "numpy", "scipy", "numba", "scikit-learn")

#: What systems put into any folder, and what a killed command leaves.
_LEFT_BEHIND = re.compile(r"\.DS_Store|Thumbs\.db|desktop\.ini|\..+\.\d+\.(tmp|old)")

#: A cell of a table: what was not measured is None.
Cell = int | float | str | None


@dataclass(frozen=True)
class RunResult:
    r"""The pseudo-labels of a run, as numpy arrays.

    Args:
        ids (numpy.ndarray): The user's name of every node, text of shape :obj:`[num_nodes]`.
        label (numpy.ndarray): Numbers of classes of shape :obj:`[num_nodes]`, :obj:`-1` where no label reaches; for
            findings 0/1 of shape :obj:`[num_nodes, num_classes]`.
        prob (numpy.ndarray): Soft labels of shape :obj:`[num_nodes, num_classes]`.
        certainty (numpy.ndarray): Of shape :obj:`[num_nodes]`.
        reached (numpy.ndarray): Whether a label reaches the node, bool of shape :obj:`[num_nodes]`.
        labelled (numpy.ndarray): Whether the node came with a label, bool of shape :obj:`[num_nodes]`.
        class_names (numpy.ndarray): The user's name of every class, text of shape :obj:`[num_classes]`.
        flow_node (numpy.ndarray, optional): The nodes whose class functions were kept, of shape :obj:`[num_kept]`.
        flow_time (numpy.ndarray, optional): The moments at which they were kept, as shares of the flow's length, of
            shape :obj:`[num_moments]`.
        flow_u (numpy.ndarray, optional): The class functions in units of their mean absolute value, float16 of shape
            :obj:`[num_moments, num_kept, num_classes]`.
        position (numpy.ndarray, optional): A map of the nodes, the plane in which their features vary most, of shape
            :obj:`[num_nodes, 2]`.
        truth (numpy.ndarray, optional): True labels where they are known, of the shape of ``label``, :obj:`-1`
            elsewhere; the report compares with them, and nothing else reads them.
    """

    ids: np.ndarray
    label: np.ndarray
    prob: np.ndarray
    certainty: np.ndarray
    reached: np.ndarray
    labelled: np.ndarray
    class_names: np.ndarray
    flow_node: np.ndarray | None = None
    flow_time: np.ndarray | None = None
    flow_u: np.ndarray | None = None
    position: np.ndarray | None = None
    truth: np.ndarray | None = None


class RunFolder:
    r"""The folder of one run. Every file in it is written under another name and renamed, so it is whole or absent.

    .. code-block:: text

        run.json        command, its line, settings, seed, versions, status
        trace.csv       one row per step of the solver     metrics.csv     one row per epoch
        result.npz      pseudo-labels (RunResult)          graph.npz       edge_index, edge_weight, num_nodes
        thumbnails.npz  node, images                       snippets.npz    node, text
        checkpoint/     what the trainer resumes from

    .. code-block:: python

        run = RunFolder.create("run", command="propagate", settings={"k": 20}, seed=0)
        run.write_trace(result.trace)
        run.finish("converged")
        RunFolder.open("run").read_trace()["ratio_0"]

    Args:
        path (Path): The folder. :meth:`create` makes one, :meth:`open` checks one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(
        cls,
        path: str | Path,
        command: str,
        settings: Mapping[str, Any],
        seed: int | None = None,
        force: bool = False,
    ) -> RunFolder:
        """Makes the folder of a new run with the status :obj:`"running"`.

        Args:
            path (str or Path): A folder that is empty or not there yet.
            command (str): What runs.
            settings (dict): All that the run depends on; values that JSON does not know are kept as text.
            seed (int, optional): The seed of the run. (default: :obj:`None`)
            force (bool, optional): Whether an earlier run in the folder is removed; anything else never is.
                (default: :obj:`False`)
        """
        folder = Path(path)
        check_free(folder, force)
        folder.mkdir(parents=True, exist_ok=True)
        for name in RUN_FILES:
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        run = cls(folder)
        run._write_info(
            {
                "program": "tg-crepe",
                "format": FORMAT,
                "command": command,
                "command_line": current_command_line(),
                "settings": dict(settings),
                "seed": seed,
                "versions": _versions(),
                "status": "running",
            }
        )
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An earlier run; the error says what is wrong with a folder that is none."""
        run = cls(Path(path))
        if not run.path.is_dir():
            raise FileNotFoundError(f"'{run.path}' is not a folder; a run is one that tg-crepe has written")
        run.info  # noqa: B018  # reading it is the check
        return run

    @property
    def info(self) -> dict[str, Any]:
        """What ``run.json`` says."""
        path = self._existing(_INFO)
        try:
            info = json.loads(read_text(path))
        except json.JSONDecodeError as error:
            raise damaged_file(path, f"it is not whole JSON ({error.msg} in line {error.lineno})") from error
        except (RecursionError, ValueError) as error:
            raise damaged_file(path, "it is nested too deeply, or holds a number that is too long") from error
        if not isinstance(info, dict) or info.get("program") != "tg-crepe":
            raise damaged_file(path, "it was not written by tg-crepe")
        if info.get("format") != FORMAT:
            raise damaged_file(path, f"its format is {info.get('format')!r}, this version reads {FORMAT}")
        check_info(path, info)
        return info

    def finish(self, status: str, **facts: object) -> None:
        """Notes how the run ended, and further facts of it."""
        self._write_info({**self.info, "status": status, **facts})

    def write_trace(self, trace: Any) -> None:
        """Keeps a trace; what has one value per class becomes one column per class (``ratio_0``, …)."""
        columns: dict[str, list[Any]] = {}
        for name in trace:
            values = _array(trace[name])
            if values.ndim == 1:
                columns[name] = values.tolist()
            else:
                flat = values.reshape(len(values), -1)
                columns |= {f"{name}_{place}": flat[:, place].tolist() for place in range(flat.shape[1])}
        rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        self._write_table("trace.csv", rows)

    def read_trace(self) -> dict[str, np.ndarray]:
        """The columns of the trace, each of shape :obj:`[num_steps]`."""
        rows = self._read_table("trace.csv")
        names = list(rows[0]) if rows else []
        try:
            return {name: np.array([_as_float(row[name]) for row in rows]) for name in names}
        except ValueError as error:
            raise damaged_file(self.path / "trace.csv", f"its cells must be numbers ({error})") from error

    def append_metrics(self, **values: Cell) -> None:
        """Adds one row to the metrics; a row may have columns that the earlier ones had not."""
        rows = self.read_metrics() if (self.path / "metrics.csv").exists() else []
        self._write_table("metrics.csv", [*rows, dict(values)])

    def read_metrics(self) -> list[dict[str, Cell]]:
        """The rows of the metrics; a blank cell is None."""
        return self._read_table("metrics.csv")

    def write_result(self, result: RunResult) -> None:
        """Keeps the pseudo-labels."""
        arrays = {field.name: getattr(result, field.name) for field in fields(result)}
        self._write_arrays("result.npz", {name: value for name, value in arrays.items() if value is not None})

    def read_result(self) -> RunResult:
        """The pseudo-labels."""
        known = [field.name for field in fields(RunResult)]
        arrays = self._read_arrays(
            "result.npz", [field.name for field in fields(RunResult) if field.default is MISSING]
        )
        check_result(self.path / "result.npz", arrays)
        return RunResult(**{name: arrays[name] for name in known if name in arrays})

    def write_graph(self, edge_index: Any, edge_weight: Any, num_nodes: int) -> None:
        """Keeps the graph: edges of shape :obj:`[2, num_edges]` and their weights."""
        # Half the size of 64-bit integers, and large enough for any graph that fits on one disk.
        kind = np.int32 if num_nodes < 2**31 else np.int64
        arrays = {"edge_index": _array(edge_index).astype(kind), "edge_weight": _array(edge_weight)}
        self._write_arrays("graph.npz", {**arrays, "num_nodes": np.int64(num_nodes)})

    def read_graph(self) -> tuple[np.ndarray, np.ndarray, int]:
        """The edges in 64-bit integers, their weights and the number of nodes."""
        arrays = self._read_arrays("graph.npz", ("edge_index", "edge_weight", "num_nodes"))
        count = check_graph(self.path / "graph.npz", arrays)
        return arrays["edge_index"].astype(np.int64), arrays["edge_weight"], count

    def write_thumbnails(self, node: Any, images: Any) -> None:
        """Keeps small images of some nodes: bytes of shape :obj:`[num_images, channels, height, width]`."""
        self._write_arrays("thumbnails.npz", {"node": _array(node), "images": _array(images)})

    def read_thumbnails(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that have an image, and their images."""
        arrays = self._read_arrays("thumbnails.npz", ("node", "images"))
        check_kept(self.path / "thumbnails.npz", arrays, "images")
        return arrays["node"], arrays["images"]

    def write_snippets(self, node: Any, text: Sequence[str]) -> None:
        """Keeps the beginnings of the texts of some nodes."""
        self._write_arrays("snippets.npz", {"node": _array(node), "text": np.array(list(text), dtype=np.str_)})

    def read_snippets(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that have a text, and the beginnings of their texts."""
        arrays = self._read_arrays("snippets.npz", ("node", "text"))
        check_kept(self.path / "snippets.npz", arrays, "text")
        return arrays["node"], arrays["text"]

    def has(self, name: str) -> bool:
        """Whether the run has a file, such as :obj:`"thumbnails.npz"`."""
        return (self.path / name).exists()

    @property
    def checkpoint(self) -> Path:
        """The folder of the trainer's own files; it is made when it is first asked for."""
        folder = self.path / "checkpoint"
        folder.mkdir(exist_ok=True)
        return folder

    def _existing(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file():
            raise FileNotFoundError(f"'{self.path}' is not a whole run: '{name}' is missing")
        return path

    def _write_info(self, info: Mapping[str, Any]) -> None:
        with atomic_file(self.path / _INFO) as unfinished:
            unfinished.write_text(json.dumps(info, indent=2, default=str) + "\n", encoding="utf-8")

    def _write_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        plain = {key: _array(value) for key, value in arrays.items()}
        for key, value in plain.items():
            if value.dtype.hasobject:
                raise ValueError(f"'{key}' must be numbers or text that need no pickle, got objects")
        with atomic_file(self.path / name) as unfinished, unfinished.open("wb") as file:
            np.savez(file, **plain)  # type: ignore[arg-type]

    def _read_arrays(self, name: str, required: Sequence[str]) -> dict[str, np.ndarray]:
        return read_arrays(self._existing(name), required)

    def _write_table(self, name: str, rows: Sequence[Mapping[str, Cell]]) -> None:
        columns = list(dict.fromkeys(column for row in rows for column in row))
        with atomic_file(self.path / name) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)

    def _read_table(self, name: str) -> list[dict[str, Cell]]:
        path = self._existing(name)
        try:
            rows = list(csv.reader(io.StringIO(read_text(path), newline="")))
        except csv.Error as error:
            raise damaged_file(path, f"it is not a whole csv file ({error})") from error
        header = rows[0] if rows else []
        for number, row in enumerate(rows[1:], start=2):
            if len(row) != len(header):
                raise damaged_file(path, f"row {number} has {len(row)} cells, the header has {len(header)}")
        return [dict(zip(header, map(_cell, row), strict=True)) for row in rows[1:]]

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({str(self.path)!r})"


@contextmanager
def stage_run(
    path: str | Path, command: str, settings: Mapping[str, Any], seed: int | None = None, force: bool = False
) -> Iterator[RunFolder]:
    """A run that is written elsewhere and appears under its name when the block ends well.

    The arguments are those of :meth:`RunFolder.create`. For short runs: a long one that can be resumed lives under its
    own name from the start.
    """
    check_free(Path(path), force, whole=True)
    with atomic_folder(Path(path)) as unfinished:
        yield RunFolder.create(unfinished, command, settings, seed)


def check_free(folder: Path, force: bool, whole: bool = False) -> None:
    """Raise unless a run may be written to ``folder``: not there, empty, or with ``force`` an earlier run.

    Where the folder is replaced as a ``whole``, nothing else may be in it.
    """
    if not folder.exists():
        above = next(place for place in folder.absolute().parents if place.exists())
        if not above.is_dir():
            raise NotADirectoryError(f"'{folder}' cannot be made: '{above}' is a file, not a folder")
        if not os.access(above, os.W_OK):
            raise PermissionError(f"'{folder}' cannot be made: the folder '{above}' cannot be written")
        return
    if not folder.is_dir():
        raise FileExistsError(f"'{folder}' is a file, not a folder")
    found = {entry.name for entry in folder.iterdir()}
    if not found:
        return
    if _INFO not in found:
        raise FileExistsError(f"'{folder}' is not empty and not a run of tg-crepe; it is left alone")
    if not force:
        raise FileExistsError(f"'{folder}' holds an earlier run; --force replaces it")
    own = {*RUN_FILES, "checkpoint", "tensorboard", "metrics.jsonl", "final.json"}
    if whole and (foreign := sorted(name for name in found - own if not _LEFT_BEHIND.fullmatch(name))):
        raise FileExistsError(
            f"'{folder}' holds '{foreign[0]}', which is none of a run's own files; move it away first"
        )
    RunFolder.open(folder)  # somebody else's run.json is not ours to remove


def _array(value: Any) -> np.ndarray:
    """A numpy array of a tensor on any device, or of anything like an array."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _cell(text: str) -> Cell:
    """A cell as the number that it is, None where it is blank, else as it stands."""
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _as_float(value: Cell) -> float:
    return math.nan if value is None else float(value)


def _versions() -> dict[str, str]:
    """The versions that a result may depend on."""
    found = {"tg-crepe": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
