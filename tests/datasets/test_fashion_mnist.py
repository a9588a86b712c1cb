import gzip
import hashlib

import pytest
import torch

from tg_crepe.datasets import load_fashion_mnist


def test_the_real_files(data_root):
    dataset = load_fashion_mnist(data_root)
    assert repr(dataset) == "ImageDataset(fashion_mnist, 60000 train, 10000 test, 1x28x28, 10 classes)"
    assert dataset.targets[dataset.train].bincount().tolist() == [6000] * 10
    assert dataset.targets[dataset.test].bincount().tolist() == [1000] * 10
    assert hashlib.md5(dataset.fetch(dataset.test).numpy().tobytes()).hexdigest() == "b7656a891b218fc13e45205c48a92cae"
    # The constants in common use.
    assert dataset.mean == pytest.approx((0.2860,), abs=5e-5)
    assert dataset.std == pytest.approx((0.3530,), abs=5e-5)
    assert dataset.class_names[int(dataset.targets[0])] == "Ankle boot"


def test_packed_and_unpacked_files_are_read(fashion_root):
    dataset = load_fashion_mnist(fashion_root, verify=False)
    packed = gzip.decompress((fashion_root / "train-images-idx3-ubyte.gz").read_bytes())[16:]
    assert dataset.fetch(dataset.train).numpy().tobytes() == packed
    plain = (fashion_root / "t10k-images-idx3-ubyte").read_bytes()[16:]
    assert dataset.fetch(dataset.test).numpy().tobytes() == plain
    assert torch.equal(dataset.targets, torch.arange(30) % 10)


def test_files_are_found_where_torchvision_keeps_them(fashion_root, tmp_path):
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for path in list(fashion_root.glob("*ubyte*")):
        path.rename(raw / path.name)
    assert len(load_fashion_mnist(tmp_path, verify=False)) == 30


def test_another_data_set_under_the_same_names_is_refused(fashion_root):
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte.gz' cannot be used: its md5 is .*verify=False"):
        load_fashion_mnist(fashion_root)
