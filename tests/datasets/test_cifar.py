import hashlib
import pickle

import numpy as np
import pytest
import torch

from tg_crepe.datasets import load_cifar10, load_cifar10_subset, load_cifar100


def test_the_real_subset(data_root):
    dataset = load_cifar10_subset(data_root)
    assert repr(dataset) == "ImageDataset(cifar10 (subset), 10000 train, 2000 test, 3x32x32, 10 classes)"
    counts = [1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981]
    assert dataset.targets[dataset.train].bincount().tolist() == counts
    counts = [196, 198, 195, 199, 198, 185, 216, 193, 217, 203]
    assert dataset.targets[dataset.test].bincount().tolist() == counts
    digests = ("4e54456ff66eb84aa6dad699a3ccdde5", "32c095a6c03c402c493bfe4c6f86cf42")
    for index, digest in zip((dataset.train, dataset.test), digests, strict=True):
        pixels = dataset.fetch(index).permute(0, 2, 3, 1).contiguous()  # the checksums are of channels last
        assert hashlib.md5(pixels.numpy().tobytes()).hexdigest() == digest


def test_cifar10_batches_are_joined_in_order(cifar10_root):
    dataset = load_cifar10(cifar10_root, verify=False)
    assert repr(dataset) == "ImageDataset(cifar10, 50 train, 10 test, 3x32x32, 10 classes)"
    third = pickle.loads((cifar10_root / "cifar-10-batches-py" / "data_batch_3").read_bytes())["data"]
    assert np.array_equal(dataset.fetch(torch.tensor([20])).flatten().numpy(), third[0])
    assert dataset.test.tolist() == list(range(50, 60))
    assert dataset.class_names[9] == "class 9"


def test_the_folder_itself_may_be_the_root(cifar10_root):
    assert len(load_cifar10(cifar10_root / "cifar-10-batches-py", verify=False)) == 60


def test_real_images_in_official_pickles_come_back(cifar10_root, data_root):
    subset = load_cifar10_subset(data_root)
    for batch in range(5):
        index = torch.arange(10 * batch, 10 * batch + 10)
        rows = {"data": subset.fetch(index).flatten(1).numpy(), "labels": subset.targets[index].tolist()}
        path = cifar10_root / "cifar-10-batches-py" / f"data_batch_{batch + 1}"
        path.write_bytes(pickle.dumps(rows, protocol=2))
    dataset = load_cifar10(cifar10_root, verify=False)
    assert torch.equal(dataset.fetch(dataset.train), subset.fetch(torch.arange(50)))
    assert torch.equal(dataset.targets[dataset.train], subset.targets[:50])


def test_python_2_pickles_are_read(cifar10_root):
    """Python 2 wrote text and pixels as byte strings, and numpy under its old name."""
    path = cifar10_root / "cifar-10-batches-py" / "test_batch"
    pixels = bytes(range(256)) * 12
    path.write_bytes(
        b"\x80\x02}q\x00(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T\x00\x0c\x00\x00" + pixels + b"tbU\x06labels]K\x03au."
    )
    dataset = load_cifar10(cifar10_root, verify=False)
    assert dataset.fetch(dataset.test).numpy().tobytes() == pixels
    assert dataset.targets[dataset.test].tolist() == [3]


def test_cifar100_has_fine_labels(cifar100_root):
    dataset = load_cifar100(cifar100_root, verify=False)
    assert repr(dataset) == "ImageDataset(cifar100, 100 train, 10 test, 3x32x32, 100 classes)"
    assert dataset.targets[dataset.train].tolist() == list(range(100))
    assert dataset.class_names[99] == "fine 99"


@pytest.mark.parametrize("load", [load_cifar10, load_cifar100])
def test_official_files_are_demanded_by_their_md5(load, cifar10_root, cifar100_root):
    with pytest.raises(ValueError, match=r"that of the official file is (c99cafc|16019d7)"):
        load(cifar10_root)


def test_a_pickle_that_would_run_code_does_not(cifar10_root, tmp_path):
    class Harmful:
        def __reduce__(self):
            return (open, (str(tmp_path / "harm"), "w"))

    path = cifar10_root / "cifar-10-batches-py" / "data_batch_1"
    path.write_bytes(pickle.dumps({"data": Harmful(), "labels": []}, protocol=2))
    with pytest.raises(ValueError, match=r"data_batch_1' cannot be used: .*open' does not belong there"):
        load_cifar10(cifar10_root, verify=False)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("kind", ["object", "int64", "S8", "u1,u1"])
def test_an_array_of_another_dtype_is_refused_before_it_is_filled(tmp_path, kind):

    from tg_crepe.datasets._cifar import read_batch

    content = {"data": np.zeros((2, 3072), dtype=kind), "labels": [0, 1]}
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(ValueError, match=r"not a whole CIFAR pickle \((the dtype|an array)"):
        read_batch(tmp_path / "data_batch_1", "labels", 10)


def test_a_shape_that_its_bytes_do_not_fill_is_refused(tmp_path):

    from tg_crepe.datasets._cifar import read_batch

    whole = pickle.dumps({"data": np.zeros((2, 3072), dtype=np.uint8), "labels": [0, 1]}, protocol=2)
    changed = whole.replace(b"K\x02M\x00\x0c", b"K\x63M\x00\x0c", 1)
    assert changed != whole
    (tmp_path / "data_batch_1").write_bytes(changed)
    with pytest.raises(ValueError, match=r"an array must be of shape \(count, 3072\)"):
        read_batch(tmp_path / "data_batch_1", "labels", 10)
