from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from tg_crepe._checks import check_choice
from tg_crepe._files import check_root, damaged_file, find_file
from tg_crepe.datasets._cbis_tables import FOLDERS, PATHOLOGIES, SOURCE, read_cases
from tg_crepe.datasets._decode import IMAGE_SUFFIXES, decode_image, image_size
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.image_files import ImageFiles, check_size


def _case_files(place: Path, folder: str) -> list[Path]:
    """The image files of a case: by its folder alone, since file and series names change with the download."""
    flat = [path for suffix in sorted(IMAGE_SUFFIXES) if (path := place / f"{folder}{suffix}").is_file()]
    inside = (path for path in sorted((place / folder).rglob("*")) if path.suffix.lower() in IMAGE_SUFFIXES)
    return flat or [path for path in inside if path.is_file()]


def _is_binary(path: Path) -> bool:
    return decode_image(path, None, channels=1).unique().numel() <= 2


def _tell_crop_from_mask(paths: Sequence[Path], place: Path) -> Path:
    """Of the two files of an abnormality the crop: the smaller, as a mask covers the whole mammogram.

    Names do not tell: which of the two comes first differs between the tables and is known to be swapped in places.
    """
    areas = [height * width for height, width in map(image_size, paths)]
    if areas[0] != areas[1]:
        return paths[areas.index(min(areas))]
    grey = [path for path in paths if not _is_binary(path)]
    if len(grey) != 1:
        raise damaged_file(place, "its two images cannot be told apart as crop and mask")
    return grey[0]


def _find_image(places: Sequence[Path], folder: str, images: str) -> Path | None:
    for place in places:
        paths = _case_files(place, folder)
        if images == "crop" and len(paths) == 2:
            return _tell_crop_from_mask(paths, place / folder)
        if len(paths) > 1:
            raise damaged_file(place / folder, f"one image is expected there, got {len(paths)}")
        if paths:
            return paths[0]
    return None


def load_cbis_ddsm(
    root: str | os.PathLike[str],
    size: int | tuple[int, int] = 64,
    images: str = "full",
    num_classes: int = 3,
    kinds: Sequence[str] = ("mass", "calc"),
    leave_out_shared_patients: bool = False,
    complete: bool = True,
) -> ImageDataset:
    r"""CBIS-DDSM: digitised mammograms with verified pathology, in the official split of its four tables.

    The tables say :obj:`BENIGN_WITHOUT_CALLBACK`, :obj:`BENIGN` and :obj:`MALIGNANT` where the paper says normal,
    benign and malignant: they are the classes 0, 1 and 2 in that order. Two classes merge the first two. The
    mammograms of both kinds are 3,103, as in the paper; 42 of them stand there once as mass and once as calcification.
    A mammogram with several abnormalities has the class of the most severe one.

    31 patients are in training for one kind and in test for the other, which a warning tells.

    Args:
        root (str or path): The folder of the tables :obj:`mass_case_description_train_set.csv` and so on, or one that
            holds them in :obj:`cbis_ddsm/`. The images are next to them, or in :obj:`CBIS-DDSM/` or :obj:`images/`
            there: a folder for each case with DICOM (needs :obj:`pydicom`) or PNG files at any depth, or a flat
            file :obj:`<case folder>.png`.
        size (int or tuple[int, int], optional): Pixels a side of the decoded images, whatever their aspect.
            (default: :obj:`64`)
        images (str, optional): :obj:`"full"` for the whole mammograms or :obj:`"crop"` for the cropped
            abnormalities. (default: :obj:`"full"`)
        num_classes (int, optional): :obj:`3`, or :obj:`2` for benign and malignant. (default: :obj:`3`)
        kinds (sequence of str, optional): :obj:`"mass"`, :obj:`"calc"` or both.
            (default: :obj:`("mass", "calc")`)
        leave_out_shared_patients (bool, optional): Whether the training images of those 31 patients are left out; the
            test images stay the official ones. (default: :obj:`False`)
        complete (bool, optional): Whether the image of every case must be there. If not, the data set has those
            that are, and is named :obj:`"cbis_ddsm (subset)"`. (default: :obj:`True`)
    """
    sides = check_size(size)
    check_choice("images", images, ("full", "crop"))
    if num_classes not in (2, 3):
        raise ValueError(f"'num_classes' must be 2 or 3, got {num_classes!r}")
    if not kinds or isinstance(kinds, str) or len(set(kinds)) < len(kinds):
        raise ValueError(f"'kinds' must be ('mass', 'calc') or one of the two, got {kinds!r}")
    for kind in kinds:
        check_choice("kinds", kind, ("mass", "calc"))
    folder = check_root(root)
    cases = read_cases(folder, images, kinds, leave_out_shared_patients)
    home = find_file(folder, FOLDERS, (f"{kinds[0]}_case_description_train_set.csv",), SOURCE).parent
    places = (home / "CBIS-DDSM", home / "images", home)
    paths = [_find_image(places, case.folder, images) for case in cases]
    there = [(case, path) for case, path in zip(cases, paths, strict=True) if path is not None]
    if not there or (complete and len(there) < len(cases)):
        first = cases[paths.index(None)].folder
        raise FileNotFoundError(
            f"{len(cases) - len(there)} of {len(cases)} images are missing, the first is that of '{first}': looked in "
            f"{', '.join(repr(str(place)) for place in places)}; get them from {SOURCE}, or use those that are there "
            "with complete=False"
        )
    severity = torch.tensor([case.severity for case, _ in there])
    in_test = torch.tensor([case.split == "test" for case, _ in there])
    return ImageDataset(
        name="cbis_ddsm" if len(there) == len(cases) else "cbis_ddsm (subset)",
        images=ImageFiles(tuple(path for _, path in there), sides, channels=1),
        targets=severity if num_classes == 3 else (severity - 1).clamp(min=0),
        train=(~in_test).nonzero().view(-1),
        test=in_test.nonzero().view(-1),
        class_names=PATHOLOGIES if num_classes == 3 else PATHOLOGIES[1:],
        ids=tuple(case.folder for case, _ in there),
        groups=tuple(case.patient for case, _ in there),
    )
