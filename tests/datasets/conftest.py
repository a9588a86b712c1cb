"""Small data sets in the official layouts, with the quirks of the real files."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

CBIS_HEADER = (
    "patient_id,{density},left or right breast,image view,abnormality id,abnormality type,{shape},{more},assessment,"
    "pathology,subtlety,image file path,cropped image file path,ROI mask file path"
)
CHEST_HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],"
)


def bytes_of(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save_image(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


@pytest.fixture
def fashion_root(tmp_path):
    """Training files packed, test files not."""
    for part, count, suffix in (("train", 20, ".gz"), ("t10k", 10, "")):
        images = struct.pack(">4i", 2051, count, 28, 28) + bytes_of(count, count, 28, 28).tobytes()
        labels = struct.pack(">2i", 2049, count) + bytes(i % 10 for i in range(count))
        for name, content in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            (tmp_path / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)
    return tmp_path


def write_pickle(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=2))


@pytest.fixture
def cifar10_root(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    for seed, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        rows = {"data": bytes_of(seed, 10, 3072), "labels": list(range(10)), "filenames": ["a.png"] * 10}
        write_pickle(folder / name, {**rows, "batch_label": name})
    write_pickle(folder / "batches.meta", {"label_names": [f"class {i}" for i in range(10)], "num_vis": 3072})
    return tmp_path


@pytest.fixture
def cifar100_root(tmp_path):
    folder = tmp_path / "cifar-100-python"
    for seed, (name, count) in enumerate((("train", 100), ("test", 10))):
        fine = [i % 100 for i in range(count)]
        coarse = [label // 5 for label in fine]
        write_pickle(folder / name, {"data": bytes_of(seed, count, 3072), "fine_labels": fine, "coarse_labels": coarse})
    names = {"fine_label_names": [f"fine {i}" for i in range(100)], "coarse_label_names": ["coarse"] * 20}
    write_pickle(folder / "meta", names)
    return tmp_path


@pytest.fixture
def cifar10_subset_root(tmp_path):
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    for part, count in (("train_batch1_10000", 10), ("test_first_2000", 4)):
        save_image(tmp_path / f"{part}.png", bytes_of(count, 32 * count, 32, 3))
        rows = "".join(f"{i},{i % 10},{names[i % 10]}\n" for i in range(count))
        (tmp_path / f"{part}_labels.csv").write_text(f"index,label,class\n{rows}")
    return tmp_path


@pytest.fixture
def medmnist_arrays():
    counts = {"train": 8, "val": 2, "test": 4}
    images = {f"{part}_images": bytes_of(count, count, 28, 28) for part, count in counts.items()}
    labels = {f"{part}_labels": (np.arange(count, dtype=np.uint8) % 2)[:, None] for part, count in counts.items()}
    return {**images, **labels}


@pytest.fixture
def medmnist_root(tmp_path, medmnist_arrays):
    np.savez(tmp_path / "pneumoniamnist.npz", **medmnist_arrays)
    return tmp_path


@pytest.fixture
def chest_root(tmp_path):
    """The entry file of 2017 with its twelfth column, lists without a last newline, images in two archives."""
    findings = ("Cardiomegaly|Emphysema", "No Finding", "Pleural_Thickening", "Hernia", "No Finding", "Mass|Nodule")
    names = ("00000001_000", "00000001_001", "00000002_000", "00000003_000", "00000003_001", "00000004_000")
    rows = []
    for seed, (name, finding) in enumerate(zip(names, findings, strict=True)):
        rows.append(f"{name}.png,{finding},0,{int(name[:8])},058Y,M,PA,2682,2749,0.143,0.143,\n")
        shape = (32, 32, 4) if seed == 1 else (32, 32)  # one is RGBA, as some of the real ones are
        archive = "images_001/images" if seed < 3 else "images_002/images"
        save_image(tmp_path / archive / f"{name}.png", bytes_of(seed, *shape))
    (tmp_path / "Data_Entry_2017.csv").write_text(f"{CHEST_HEADER}\n{''.join(rows)}")
    (tmp_path / "train_val_list.txt").write_text("\n".join(f"{name}.png" for name in names[:3]))
    (tmp_path / "test_list.txt").write_text("\n".join(f"{name}.png" for name in names[3:]))
    return tmp_path


def cbis_row(kind: str, split: str, patient: str, view: str, number: int, pathology: str) -> str:
    """A row as in the real tables: a newline inside the cell of the mask (mass) or of the crop (calc)."""
    full = f"{kind.capitalize()}-{'Training' if split == 'train' else 'Test'}_{patient}_LEFT_{view}"
    crop, mask = f"{full}_{number}/1.3/1.4/00000{int(kind == 'calc')}.dcm", f"{full}_{number}/1.3/1.4/000000.dcm"
    crop, mask = (crop, f'"{mask}\n"') if kind == "mass" else (f'"{crop}\n"', mask)
    return f"{patient},3,LEFT,{view},{number},{kind},N/A,N/A,4,{pathology},4,{full}/1.1/1.2/000000.dcm,{crop},{mask}"


@pytest.fixture
def cbis_root(tmp_path):
    """Tables with CRLF; images as PNG, the mask of a crop before it in calc and after it in mass."""
    cases = {
        ("mass", "train"): [("P_1", "CC", 1, "BENIGN"), ("P_1", "CC", 2, "MALIGNANT"), ("P_2", "MLO", 1, "BENIGN")],
        ("mass", "test"): [("P_3", "CC", 1, "MALIGNANT"), ("P_4", "CC", 1, "BENIGN_WITHOUT_CALLBACK")],
        ("calc", "train"): [("P_5", "CC", 1, "BENIGN_WITHOUT_CALLBACK"), ("P_3", "MLO", 1, "BENIGN")],
        ("calc", "test"): [("P_6", "CC", 1, "MALIGNANT")],
    }
    seed = 0
    for (kind, split), rows in cases.items():
        words = ("breast_density", "mass shape", "mass margins")
        if kind == "calc":
            words = ("breast density", "calc type", "calc distribution")
        lines = [CBIS_HEADER.format(density=words[0], shape=words[1], more=words[2])]
        for patient, view, number, pathology in rows:
            lines.append(cbis_row(kind, split, patient, view, number, pathology))
            full = f"{kind.capitalize()}-{'Training' if split == 'train' else 'Test'}_{patient}_LEFT_{view}"
            folder, seed = tmp_path / "CBIS-DDSM", seed + 1
            crop, mask = ("1-1", "1-2") if kind == "mass" else ("1-2", "1-1")
            save_image(folder / full / "07-20-2016" / "1-full" / "1-1.png", bytes_of(seed, 60, 40))
            save_image(folder / f"{full}_{number}" / "series" / f"{crop}.png", np.full((9, 8), 100 + seed, np.uint8))
            save_image(folder / f"{full}_{number}" / "series" / f"{mask}.png", np.eye(60, 40, dtype=np.uint8) * 255)
        table = tmp_path / f"{kind}_case_description_{split}_set.csv"
        table.write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    return tmp_path


MINI_CLASSES = {"train": ("n01532829", "n01558993"), "val": ("n01855672",), "test": ("n01930112",)}


@pytest.fixture
def mini_root(tmp_path):
    for part, labels in MINI_CLASSES.items():
        lines = ["filename,label"]
        for label in labels:
            for number in range(1, 7):
                lines.append(f"{label}{number:08d}.jpg,{label}")
                save_image(tmp_path / "images" / f"{label}{number:08d}.jpg", bytes_of(number, 84, 84, 3))
        (tmp_path / f"{part}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def folder_root(tmp_path):
    root = tmp_path / "pets"
    places = ("train/cat/1", "train/cat/2", "train/dog/3", "train/unlabelled/4", "test/cat/5", "test/dog/6")
    for seed, place in enumerate(places):
        save_image(root / f"{place}.png", bytes_of(seed, 8, 8, 3))
    return root


@pytest.fixture
def flat_root(tmp_path):
    root = tmp_path / "flat"
    for seed in range(4):
        save_image(root / f"{seed}.png", bytes_of(seed, 8, 8))
    (root / "labels.csv").write_text("id,label\n0.png,10\n1.png,9\n2.png,\n")
    return root


@pytest.fixture
def npz_path(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, images=bytes_of(0, 6, 8, 8, 3), labels=np.array([0, 1, 2, -1, 1, 0]), test=np.array([4, 5]))
    return path
