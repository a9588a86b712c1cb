"""The four tables of CBIS-DDSM, to one case for each mammogram or each cropped abnormality."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tg_crepe._files import damaged_file, find_file, read_table
from tg_crepe.warnings import DatasetWarning

SOURCE = "CBIS-DDSM at The Cancer Imaging Archive, https://doi.org/10.7937/K9/TCIA.2016.7O02S9CY"
FOLDERS = ("", "cbis_ddsm")
#: From the least to the most severe: the place is the class.
PATHOLOGIES = ("BENIGN_WITHOUT_CALLBACK", "BENIGN", "MALIGNANT")
_SIDE, _VIEW, _NUMBER = "left or right breast", "image view", "abnormality id"
_PATHS = {"full": "image file path", "crop": "cropped image file path"}


@dataclass(frozen=True)
class Case:
    """One image: its folder's name, split, patient, and the place of its pathology in :data:`PATHOLOGIES`."""

    folder: str
    split: str
    patient: str
    severity: int


def _case(row: dict[str, str], kind: str, split: str, images: str, path: Path) -> Case:
    """The case of one row; the folder's name follows from the other cells, and the path cell must agree with it."""
    if row["pathology"] not in PATHOLOGIES:
        raise damaged_file(path, f"'pathology' must be one of {', '.join(PATHOLOGIES)}, got '{row['pathology']}'")
    prefix = f"{kind.capitalize()}-{'Training' if split == 'train' else 'Test'}"
    folder = "_".join((prefix, row["patient id"], row[_SIDE], row[_VIEW]))
    if images == "crop":
        folder += f"_{row[_NUMBER]}"
    if (named := row[_PATHS[images]].split("/")[0]) != folder:
        raise damaged_file(
            path, f"'{_PATHS[images]}' must begin with '{folder}', as the row's other cells say, got '{named}'"
        )
    return Case(folder, split, row["patient id"], PATHOLOGIES.index(row["pathology"]))


def _read_kind(root: Path, kind: str, images: str) -> list[Case]:
    """The cases of mass or calc, training before test; several abnormalities of a mammogram give the most severe."""
    cases: dict[str, Case] = {}
    columns = ("patient id", _SIDE, _VIEW, _NUMBER, "pathology", _PATHS[images])
    for split in ("train", "test"):
        path = find_file(root, FOLDERS, (f"{kind}_case_description_{split}_set.csv",), SOURCE)
        seen: set[tuple[str, str]] = set()
        for row in read_table(path, columns):
            case = _case(row, kind, split, images, path)
            if (case.folder, row[_NUMBER]) in seen:
                raise damaged_file(path, f"abnormality {row[_NUMBER]} of '{case.folder}' stands there twice")
            seen.add((case.folder, row[_NUMBER]))
            if case.folder not in cases or cases[case.folder].severity < case.severity:
                cases[case.folder] = case
        if not seen:
            raise damaged_file(path, "it has a header and no rows")
    if both := _in_both(list(cases.values())):
        raise damaged_file(path, f"patient {min(both)} is in the training table of the same kind too")
    return list(cases.values())


def _in_both(cases: Sequence[Case]) -> set[str]:
    train, test = ({case.patient for case in cases if case.split == split} for split in ("train", "test"))
    return train & test


def read_cases(root: Path, images: str, kinds: Sequence[str], leave_out_shared_patients: bool) -> list[Case]:
    """All cases; patients in training for one kind and in test for the other are left out of training, or warned of."""
    cases = [case for kind in kinds for case in _read_kind(root, kind, images)]
    shared = _in_both(cases)
    if shared and leave_out_shared_patients:
        return [case for case in cases if case.split == "test" or case.patient not in shared]
    if shared:
        warnings.warn(
            f"{len(shared)} patients are in training for one kind and in test for the other, so the test images are "
            "not all of unseen patients; leave_out_shared_patients=True leaves their training images out",
            DatasetWarning,
            stacklevel=3,
        )
    return cases
