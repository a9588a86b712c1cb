import gzip
import hashlib

import numpy as np
import pytest
import torch
from PIL import Image

from tg_crepe.datasets import load_chestxray14, load_chestxray14_subset

COUNTS = {"Infiltration": 830, "Effusion": 487, "Atelectasis": 460, "Nodule": 214, "Consolidation": 205}
COUNTS |= {"Pneumothorax": 199, "Cardiomegaly": 196, "Fibrosis": 172, "Pleural_Thickening": 165, "Mass": 161}
COUNTS |= {"Emphysema": 125, "Edema": 90, "Pneumonia": 65, "Hernia": 27}


def patients(dataset, index):
    return {dataset.groups[i] for i in index.tolist()}


def test_the_real_subset(data_root):
    dataset = load_chestxray14_subset(data_root)
    assert repr(dataset) == "ImageDataset(chestxray14 (subset), 4032 train, 967 test, 1x64x64, 14 findings)"
    assert dict(zip(dataset.class_names, dataset.targets.sum(dim=0).tolist(), strict=True)) == COUNTS
    assert int((dataset.targets.sum(dim=1) == 0).sum()) == 2754
    assert len(set(dataset.groups)) == 1335
    assert not patients(dataset, dataset.train) & patients(dataset, dataset.test)
    assert hashlib.md5(dataset.images.numpy().tobytes()).hexdigest() == "279702fc0e0fa99d1bf3b412e7bbd872"


def test_the_real_excerpt_in_the_official_layout(data_root):
    dataset = load_chestxray14(data_root / "chestxray14" / "layout_excerpt", size=128)
    assert repr(dataset) == "ImageDataset(chestxray14, 54 train, 43 test, 1x128x128, 14 findings)"
    assert len(set(dataset.groups)) == 52
    assert bool((dataset.targets.sum(dim=0) > 0).all())
    images = dataset.fetch(torch.arange(97))
    assert hashlib.md5(images.numpy().tobytes()).hexdigest() == "3e1848beb9ababd0a4cce4759b08b106"
    assert torch.equal(dataset.in_memory().images, images)
    mean = images[dataset.train].double().mean() / 255
    assert dataset.mean == pytest.approx((float(mean),))


def test_the_complete_tables_without_images_are_read_and_the_images_named(data_root):
    with pytest.raises(
        FileNotFoundError, match=r"112120 of 112120 images are missing, the first is '00000001_000.png'"
    ):
        load_chestxray14(data_root)


def test_quirks_of_the_layout(chest_root):
    """A twelfth column without name, ages such as 058Y, lists without a last newline, RGBA, two archives."""
    dataset = load_chestxray14(chest_root, size=32)
    assert dataset.groups == ("1", "1", "2", "3", "3", "4")
    assert (dataset.train.tolist(), dataset.test.tolist()) == ([0, 1, 2], [3, 4, 5])
    names = [[dataset.class_names[j] for j in row.nonzero().view(-1).tolist()] for row in dataset.targets]
    assert names == [["Cardiomegaly", "Emphysema"], [], ["Pleural_Thickening"], ["Hernia"], [], ["Mass", "Nodule"]]
    with Image.open(chest_root / "images_001" / "images" / "00000001_001.png") as image:
        assert image.mode == "RGBA"
        assert np.array_equal(dataset.fetch(torch.tensor([1]))[0, 0].numpy(), np.asarray(image.convert("L")))


def test_renamed_columns_windows_ends_and_a_packed_table_are_read(chest_root):
    table = chest_root / "Data_Entry_2017.csv"
    text = table.read_text().replace("Image Index", "Image_Index").replace("Patient ID", "Patient_ID")
    packed = gzip.compress(text.replace("\n", "\r\n").encode("utf-8-sig"))
    (chest_root / "Data_Entry_2017_v2020.csv.gz").write_bytes(packed)
    table.unlink()
    assert len(load_chestxray14(chest_root)) == 6


def test_a_part_of_the_images_is_read_when_asked_for_and_named_a_subset(chest_root):
    (chest_root / "images_001" / "images" / "00000001_000.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of 6 images are missing.*complete=False"):
        load_chestxray14(chest_root)
    dataset = load_chestxray14(chest_root, complete=False)
    assert dataset.name == "chestxray14 (subset)"
    assert dataset.ids[0] == "00000001_001.png"
    assert (dataset.train.tolist(), dataset.test.tolist()) == ([0, 1], [2, 3, 4])
