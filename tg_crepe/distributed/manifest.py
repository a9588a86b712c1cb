from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tg_crepe._files import atomic_file

#: The name of the manifest in a folder of shards, and the version of the layout that this code writes and reads.
MANIFEST = "manifest.json"
VERSION = 1


class ShardError(ValueError):
    """A folder of shards that cannot be used; the message names the file, what was expected and what is there."""


@dataclass(frozen=True)
class Manifest:
    """What a folder of shards holds. It is written last and at once: a folder without it is not complete.

    Args:
        parts (int): The number of shards.
        num_nodes (int): The number of nodes of the whole graph.
        num_features (int, optional): The length of a row of features; :obj:`None` for a graph without features.
        dtype (str): The floating type of the features and of the weights, such as :obj:`"float32"`.
        k (int, optional): The number of neighbours of the graph that is, or is to be, built from the features.
        metric (str, optional): Its metric, :obj:`"cosine"` or :obj:`"euclidean"`.
        factor (tuple, optional): What the columns are multiplied by before distances are taken
            (:class:`~tg_crepe.graph.metric.Placement`); :obj:`None` where they stay as they are.
        num_classes (int, optional): The number of classes; :obj:`None` without labels.
        multi_label (bool): Whether the columns of ``y`` are findings on their own.
        class_names (tuple): The names of the classes; empty where they are numbers.
        files (dict): For every file, by its name below the folder, its ``size`` in bytes and its ``sha256``.
        report (dict, optional): Edges, cut, halo sizes and imbalance
            (:class:`~tg_crepe.distributed.PartitionReport`); :obj:`None` until the graph is built.
    """

    parts: int
    num_nodes: int
    num_features: int | None
    dtype: str
    k: int | None = None
    metric: str | None = None
    factor: tuple[float, ...] | None = None
    num_classes: int | None = None
    multi_label: bool = False
    class_names: tuple[str, ...] = ()
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    report: dict[str, Any] | None = None

    @property
    def has_graph(self) -> bool:
        """Whether the shards hold their edges, and not features alone."""
        return f"{part_name(0)}/rowptr.npy" in self.files

    @staticmethod
    def read(folder: Path) -> Manifest:
        """The manifest of a folder."""
        path = folder / MANIFEST
        if not path.is_file():
            raise ShardError(f"'{path}' is missing: the folder holds no shards, or they were not completed")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version = content.pop("version")
            if version != VERSION:
                raise ShardError(f"'{path}' must be of version {VERSION}, got {version!r}")
            factor = content.get("factor")
            content["factor"] = None if factor is None else tuple(map(float, factor))
            return Manifest(**{**content, "class_names": tuple(content["class_names"])})
        except ShardError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ShardError(f"'{path}' must be a manifest of shards, got something else ({error})") from error

    def write(self, folder: Path) -> None:
        """Writes it to a folder, whole or not at all."""
        with atomic_file(folder / MANIFEST) as unfinished:
            text = json.dumps({"version": VERSION, **asdict(self)}, indent=1, ensure_ascii=False)
            unfinished.write_text(text + "\n", encoding="utf-8")

    def check_part(self, folder: Path, rank: int, world_size: int) -> None:
        """Raise unless the files of a rank's part are there, whole and the ones that were written."""
        if world_size != self.parts:
            raise ShardError(
                f"'{folder / MANIFEST}' is for {self.parts} process(es), got a world size of {world_size}; "
                f"start {self.parts} processes or partition again with -n {world_size}"
            )
        if not 0 <= rank < world_size:
            raise ShardError(f"'rank' must be in [0, {world_size - 1}], got {rank}")
        own = {name: record for name, record in self.files.items() if name.startswith(part_name(rank) + "/")}
        if not own:
            raise ShardError(f"'{folder / MANIFEST}' must name the files of {part_name(rank)}, got none")
        for name, record in own.items():
            _check_file(folder / name, record)


def part_name(rank: int) -> str:
    """The name of a rank's folder."""
    return f"part-{rank:05d}"


def file_record(path: Path) -> dict[str, Any]:
    """Size and checksum of a file."""
    return {"size": path.stat().st_size, "sha256": _sha256(path)}


def _check_file(path: Path, record: dict[str, Any]) -> None:
    """Raise unless the file is the one that the manifest tells of."""
    if not path.is_file():
        raise ShardError(f"'{path}' is missing: the manifest names it, {record['size']} bytes")
    size = path.stat().st_size
    if size != record["size"]:
        raise ShardError(f"'{path}' must have {record['size']} bytes, got {size}: it is truncated or another file")
    digest = _sha256(path)
    if digest != record["sha256"]:
        raise ShardError(f"'{path}' must have the sha256 {record['sha256']}, got {digest}: it is damaged")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
