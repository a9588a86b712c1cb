from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._files import atomic_file, read_arrays


@dataclass(frozen=True)
class Block:
    r"""The rows of some items in order.

    Args:
        x (numpy.ndarray): Features of the items that could be read, float32 of shape :obj:`[num_rows, num_features]`.
        place (numpy.ndarray): Which items they are, of shape :obj:`[num_rows]`.
        skipped (dict): What is wrong with the others, by their place.
        truncated (int): How many texts were longer than the model's window.
    """

    x: np.ndarray
    place: np.ndarray
    skipped: dict[int, str]
    truncated: int


class BlockFolder:
    r"""Whole blocks of an embedding that is being made, in a hidden folder beside its file.

    A block has the checksum of all that it depends on in its name, so that a run that was killed goes on with the
    blocks that fit it, and no other is ever read.

    Args:
        out (Path): The file that the embedding will be.
        plan (dict): What all blocks depend on.
    """

    def __init__(self, out: Path, plan: Mapping[str, Any]) -> None:
        self.path = out.absolute().with_name(f".{out.name}.blocks")
        self._plan = json.dumps(plan, sort_keys=True, default=str)

    def _file(self, number: int, mark: str) -> Path:
        key = hashlib.sha256(f"{self._plan} {number} {mark}".encode()).hexdigest()[:16]
        return self.path / f"{number:06d}-{key}.npz"

    @property
    def begun(self) -> bool:
        """Whether an earlier run left any block."""
        return self.path.is_dir()

    def has(self, number: int, mark: str) -> bool:
        """Whether a block of these items is there."""
        return self._file(number, mark).is_file()

    def read(self, number: int, mark: str) -> Block:
        """A block that is there; raises where it is damaged."""
        arrays = read_arrays(self._file(number, mark), ("x", "place", "skipped", "truncated"))
        skipped = {int(place): reason for place, reason in json.loads(str(arrays["skipped"])).items()}
        return Block(arrays["x"], arrays["place"], skipped, int(arrays["truncated"]))

    def write(self, number: int, mark: str, block: Block) -> None:
        """Keeps a block, whole or not at all."""
        self.path.mkdir(exist_ok=True)
        with atomic_file(self._file(number, mark)) as unfinished, unfinished.open("wb") as file:
            np.savez(
                file,
                x=block.x,
                place=block.place,
                skipped=np.array(json.dumps(block.skipped)),
                truncated=np.array(block.truncated),
            )

    def remove(self) -> None:
        """Forgets all blocks: the file is there."""
        shutil.rmtree(self.path, ignore_errors=True)
