"""The tables of ChestX-ray14: findings and patient of each image, and the official lists of the two splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tg_crepe._files import check_unique, damaged_file, find_file, read_table, read_text

#: The 14 findings in the order of the data set's paper.
FINDINGS = (
    "Atelectasis",
    "Cardiomegaly",
    "Effusion",
    "Infiltration",
    "Mass",
    "Nodule",
    "Pneumonia",
    "Pneumothorax",
    "Consolidation",
    "Edema",
    "Emphysema",
    "Fibrosis",
    "Pleural_Thickening",
    "Hernia",
)
SOURCE = "NIH Clinical Center, ChestX-ray14, https://nihcc.app.box.com/v/ChestXray-NIHCC"


@dataclass(frozen=True)
class Entries:
    """Rows of the entry file."""

    names: tuple[str, ...]
    targets: Tensor  # [count, 14], 0 or 1
    patients: tuple[str, ...]


def _findings(cell: str) -> list[int]:
    """0 or 1 for each finding; 'No Finding' is no class of its own but the absence of all."""
    named = cell.split("|")
    if named == ["No Finding"]:
        return [0] * len(FINDINGS)
    unknown = [name for name in named if name not in FINDINGS]
    if unknown or len(set(named)) < len(named):
        raise ValueError(f"'{cell}' must be 'No Finding' or known findings joined by '|'")
    return [int(name in named) for name in FINDINGS]


def read_entries(path: Path) -> Entries:
    """Reads the entry file of 2017 or 2020, or a part of it; ages are not read, since copies differ in them."""
    rows = read_table(path, ("Image Index", "Finding Labels", "Patient ID"))
    if not rows:
        raise damaged_file(path, "it has a header and no rows")
    names = tuple(row["Image Index"] for row in rows)
    check_unique(path, "the image", names)
    targets = []
    for row in rows:
        try:
            targets.append(_findings(row["Finding Labels"]))
        except ValueError as error:
            raise damaged_file(path, f"the findings of '{row['Image Index']}' are wrong: {error}") from error
    patients = tuple(row["Patient ID"] for row in rows)
    if not all(patients):
        raise damaged_file(path, f"'{names[patients.index('')]}' has no patient")
    return Entries(names, torch.tensor(targets), patients)


def _read_list(path: Path) -> list[str]:
    names = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if not names:
        raise damaged_file(path, "it is empty")
    check_unique(path, "the image", names)
    return names


@dataclass(frozen=True)
class OfficialLists:
    """The names of the two official lists, with the lists' own paths for error messages."""

    train_path: Path
    train: frozenset[str]
    test_path: Path
    test: frozenset[str]


def read_lists(root: Path, folders: Sequence[str]) -> OfficialLists:
    """Reads the two official lists; no name may be in both."""
    train_path = find_file(root, folders, ("train_val_list.txt",), SOURCE)
    test_path = find_file(root, folders, ("test_list.txt",), SOURCE)
    train, test = frozenset(_read_list(train_path)), frozenset(_read_list(test_path))
    if train & test:
        raise damaged_file(test_path, f"'{min(train & test)}' stands in '{train_path}' too")
    return OfficialLists(train_path, train, test_path, test)


def split_indices(entries: Entries, lists: OfficialLists) -> tuple[Tensor, Tensor]:
    """Indices of training and test images; every image is in a list, and no patient in both."""
    for name in entries.names:
        if name not in lists.train and name not in lists.test:
            raise damaged_file(lists.train_path, f"'{name}' stands neither there nor in '{lists.test_path}'")
    tested = {patient for name, patient in zip(entries.names, entries.patients, strict=True) if name in lists.test}
    for name, patient in zip(entries.names, entries.patients, strict=True):
        if name in lists.train and patient in tested:
            raise damaged_file(
                lists.test_path, f"patient {patient} has images there and in '{lists.train_path}' ('{name}')"
            )
    in_test = torch.tensor([name in lists.test for name in entries.names])
    return (~in_test).nonzero().view(-1), in_test.nonzero().view(-1)
