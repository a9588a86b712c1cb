"""An embedding as a file: features and names as ``propagate`` reads them, and what they were made with."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._files import atomic_file, check_unique, damaged_file, read_arrays

#: The layout of the file; a reader refuses another one.
FORMAT = 1

#: What readers may ask of a note, with what is assumed where it does not say.
_NOTE = {"model": "an unknown model", "encoder": {}, "source": {}, "asked": {}, "skipped": {}, "truncated": 0}


@dataclass(frozen=True, eq=False)
class Embedding:
    r"""Features of images or texts, their names, and what they were made with.

    Args:
        x (numpy.ndarray): Features, float32 of shape :obj:`[num_items, num_features]`.
        ids (tuple[str, ...]): One name for each row.
        made (dict): Model, library versions, preprocessing, source, what was left out.
    """

    x: np.ndarray
    ids: tuple[str, ...]
    made: dict[str, Any] = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Writes the file, whole or not at all."""
        check_unique(Path(path), "the id", self.ids)
        write_embedding(Path(path), [self.x], self.ids, self.x.shape, self.made)

    def __repr__(self) -> str:
        rows, width = self.x.shape
        return f"{type(self).__name__}({rows} rows of {width} features, {self.made.get('model', 'unknown model')})"


def write_embedding(
    path: Path, parts: Iterable[np.ndarray], ids: Sequence[str], shape: tuple[int, ...], made: Mapping[str, Any]
) -> None:
    """Writes an embedding part by part, so that no more than a part of it is in memory.

    The bytes of the file depend on the arguments alone, and not on the parts: members of a .npz file have no time.
    """
    digest = hashlib.sha256(json.dumps(list(ids)).encode())
    with atomic_file(path) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": tuple(map(int, shape))}
            np.lib.format.write_array_header_1_0(file, header)
            for part in parts:
                if part.size:
                    rows = np.ascontiguousarray(part, dtype="<f4").data.cast("B")
                    digest.update(rows)
                    file.write(rows)
        note = {"format": FORMAT, **made, "checksum": digest.hexdigest()}
        for name, array in {"ids": np.array(list(ids)), "made": np.array(json.dumps(note, sort_keys=True))}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def read_embedding(path: str | Path) -> Embedding:
    """An embedding, its checksum tested."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"the embedding '{path}' is missing")
    arrays = read_arrays(path, ("x", "ids", "made"))
    made = _parse(path, arrays["made"])
    x, ids = arrays["x"], tuple(map(str, arrays["ids"].reshape(-1).tolist()))
    if x.ndim != 2 or x.dtype != np.float32 or not x.size or len(ids) != len(x):
        raise damaged_file(path, f"'x' must be float32 with a row for each of the ids, got {x.dtype} {x.shape}")
    digest = hashlib.sha256(json.dumps(list(ids)).encode())
    digest.update(np.ascontiguousarray(x, dtype="<f4").data.cast("B"))
    if digest.hexdigest() != made.get("checksum"):
        raise damaged_file(path, "its features are not those that were written (the checksum differs)")
    return Embedding(x, ids, made)


def read_note(path: Path) -> dict[str, Any] | None:
    """What an embedding was made with, without reading the features; None for a file that does not say."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return _parse(path, file["made"]) if "made" in file.files else None
    except (ValueError, OSError, EOFError, KeyError, RecursionError, zipfile.BadZipFile, zlib.error):
        return None


def _parse(path: Path, note: np.ndarray) -> dict[str, Any]:
    try:
        made = json.loads(str(note))
    except (json.JSONDecodeError, RecursionError) as error:
        raise damaged_file(path, "what it says of its making is not whole JSON") from error
    if not isinstance(made, dict) or made.get("format") != FORMAT:
        raise damaged_file(path, f"this version reads embeddings of format {FORMAT}")
    for name, assumed in _NOTE.items():
        if type(made.setdefault(name, assumed)) is not type(assumed):
            raise damaged_file(path, f"'{name}' of its making must be a {type(assumed).__name__}")
    return made
