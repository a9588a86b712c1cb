"""Files: written whole or not at all, and read so that every error names the file and what is wrong with it."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe._unfinished import noted

#: Bytes from which on a file is asked what it unfolds to.
_LARGE = 1 << 30


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """The name to write to; it becomes ``path`` when the block ends well, and nothing is left of it otherwise."""
    unfinished = _beside(path)
    with noted(unfinished):
        yield unfinished
        unfinished.replace(path)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """The same for a new folder; what was at ``path`` is kept until the new one is there."""
    unfinished, old = _beside(path), _beside(path, "old")
    with noted(unfinished):
        unfinished.mkdir(parents=True)
        yield unfinished
        try:
            if path.exists():
                path.replace(old)
            unfinished.replace(path)
        except BaseException:
            if old.exists() and not path.exists():
                old.replace(path)
            raise
        finally:
            if path.exists():  # else the old one is all that there is
                shutil.rmtree(old, ignore_errors=True)


def _beside(path: Path, ending: str = "tmp") -> Path:
    """A hidden name in the same folder, so that the rename stays on one file system; unique to this process."""
    return path.absolute().with_name(f".{path.name}.{os.getpid()}.{ending}")


def damaged_file(path: Path | str, problem: str) -> ValueError:
    """The error for a file that is there and cannot be used."""
    return ValueError(f"'{path}' cannot be used: {problem}")


def check_root(root: str | os.PathLike[str]) -> Path:
    """The folder that a user named, or an error that says it is none."""
    if not isinstance(root, str | os.PathLike) or not os.fspath(root):
        raise ValueError(f"'root' must be the path of a folder, got {root!r}")
    folder = Path(root)
    if not folder.is_dir():
        raise FileNotFoundError(f"'root' must be a folder that exists, got '{folder}'")
    return folder


def find_file(root: Path, folders: Sequence[str], names: Sequence[str], source: str) -> Path:
    """The first of ``names`` in the first of ``folders`` below ``root``; the error says where to get the file."""
    places = [root / folder for folder in folders]
    for place in places:
        for name in names:
            if (place / name).is_file():
                return place / name
    wanted, looked = " or ".join(f"'{name}'" for name in names), ", ".join(f"'{place}'" for place in places)
    raise FileNotFoundError(f"{wanted} is missing: looked in {looked}; get it from {source}")


def check_md5(path: Path, expected: str, source: str) -> None:
    """Raise unless the file is the official one to the byte."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise damaged_file(
            path,
            f"its md5 is {digest.hexdigest()}, that of the official file is {expected}; it is damaged, half "
            f"downloaded or another file: get it from {source} (verify=False reads a file that differs on purpose)",
        )


def read_bytes(path: Path) -> bytes:
    """The whole content, unpacked where the name ends in .gz."""
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, OSError, zlib.error) as error:
        raise damaged_file(path, f"unpacking failed ({error}); it is damaged or half downloaded") from error


def read_text(path: Path) -> str:
    """The whole content as text; line ends stay as they are, since cells of a table may hold some."""
    content = read_bytes(path)
    if content[:4] in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
        raise damaged_file(path, "it is a spreadsheet and no table of text: save it as CSV UTF-8")
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what spreadsheets call Unicode text
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError as error:
            raise damaged_file(path, f"it is not whole UTF-16 text ({error.reason})") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise damaged_file(
            path,
            f"it is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8 (in a spreadsheet: "
            "CSV UTF-8)",
        ) from error


def delimiter_of(header: str) -> str:
    """What separates the cells of a table: a comma, or a semicolon or tab where its first line has no comma."""
    return next((mark for mark in ",;\t" if mark in header), ",")


def id_column(path: Path | str, names: Iterable[Any]) -> Any:
    """The column that names the rows of a table: id, or the one that differs from it in case and spaces alone; None
    where there is none, and an error where there are several."""
    alike = [name for name in names if str(name).strip().casefold() == "id"]
    if len(alike) > 1 and "id" not in alike:
        found = ", ".join(map(repr, alike))
        raise damaged_file(path, f"{found} could all be the names of its rows: call one of them id")
    return "id" if "id" in alike else next(iter(alike), None)


def read_table(
    path: Path, columns: Iterable[str], exact: bool = False, trimmed: list[str] | None = None
) -> list[dict[str, str]]:
    """Rows of a csv file, cells stripped; raises unless every row fits the header and ``columns`` are there.

    An underscore in a column's name counts as a space, and a last column without name or content is dropped: copies
    of the medical tables differ in both. Cells of ``columns`` that had spaces around them are listed in ``trimmed``.
    """
    text = read_text(path)
    if text[:4].lower() == "sep=":  # a line by which some spreadsheets say what separates the cells
        text = text.partition("\n")[2]
    mark = delimiter_of(text.partition("\n")[0])
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=mark))
    except csv.Error as error:
        raise damaged_file(path, f"it is not a whole csv file ({error})") from error
    if not any(cell.strip() for row in rows for cell in row):
        raise damaged_file(path, "it is empty")
    header = [name.strip().replace("_", " ") for name in rows[0]]
    nameless = header[-1:] == [""]
    header = header[:-1] if nameless else header
    wanted = [column.replace("_", " ") for column in columns]
    for column in wanted:  # ID and Label are as good
        alike = [place for place, name in enumerate(header) if name.casefold() == column.casefold()]
        if column not in header and len(alike) == 1:
            header[alike[0]] = column
    absent, extra = [c for c in wanted if c not in header], [c for c in header if c not in wanted]
    if absent or (exact and extra) or len(set(header)) < len(header):
        expected = "exactly the columns" if exact else "the columns"
        raise damaged_file(path, f"it must have {expected} {', '.join(wanted)}, got {', '.join(header)}")
    places = [header.index(name) for name in wanted]
    table = []
    for number, row in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in row):
            continue
        if nameless and len(row) == len(header) + 1 and not row[-1].strip():
            row = row[:-1]
        if len(row) != len(header):
            raise damaged_file(path, f"row {number} has {len(row)} cells, the header has {len(header)}")
        if trimmed is not None:
            trimmed += [row[place] for place in places if row[place].strip() != row[place]]
        table.append(dict(zip(header, (cell.strip() for cell in row), strict=True)))
    return table


def check_unfolded(path: Path) -> None:
    """Raise where a zip file (.npz, .pt) claims to unfold to gigabytes, and to far more than real data would: deflate
    makes a thousandth of zeros, and of real arrays a third."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as file:
            unfolded = sum(part.file_size for part in file.infolist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return  # its reader will say what is wrong
    if unfolded > _LARGE and unfolded > 20 * path.stat().st_size:
        raise damaged_file(
            path,
            f"{path.stat().st_size / 2**20:,.1f} MB would unfold to {unfolded / 2**30:,.1f} GB; save it uncompressed",
        )


def read_arrays(path: Path, required: Iterable[str]) -> dict[str, np.ndarray]:
    """All arrays of a .npz file; nothing is unpickled, and the checksums inside the file are tested by reading it."""
    if not zipfile.is_zipfile(path):
        raise damaged_file(path, "it is not a whole .npz file; it is damaged or half downloaded")
    check_unfolded(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        if "Object arrays" in str(error):
            raise damaged_file(
                path, "it holds Python objects; save names as text: ids=np.array(ids).astype(str)"
            ) from error
        raise damaged_file(path, f"an array in it cannot be read ({error})") from error
    absent = [name for name in required if name not in arrays]
    if absent:
        raise damaged_file(path, f"it must hold the array(s) {', '.join(absent)}, got {', '.join(arrays) or 'none'}")
    return arrays


def check_unique(path: Path | str, what: str, names: Sequence[str]) -> None:
    """Raise if a name stands twice, and say which."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise damaged_file(path, f"{what} '{name}' stands there twice")
        seen.add(name)
