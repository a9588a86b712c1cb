"""One thing is wrong with a data set: one error, which names the file or folder and the problem."""

import gzip
import io
import pickle
import shutil
import struct

import numpy as np
import pytest
import torch
from PIL import Image

from tg_crepe.datasets import get_dataset


def cut(name):
    """Leaves the first half of a file, as a download that broke off."""

    def damage(root):
        path = root / name if name else root
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return damage


def remove(name):
    def damage(root):
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def write(name, content):
    return lambda root: (root / name).write_bytes(content)


def edit(name, old, new):
    """Replaces a part of a text file wherever it stands."""

    def damage(root):
        path = root / name
        text = path.read_bytes().decode()
        assert old in text
        path.write_bytes(text.replace(old, new).encode())

    return damage


def append(name, text):
    return lambda root: (root / name).write_bytes((root / name).read_bytes() + text.encode())


def copy(source, target):
    def damage(root):
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / source, root / target)

    return damage


def image(name, shape):
    return lambda root: Image.fromarray(np.zeros(shape, np.uint8)).save(root / name)


def arrays(**changes):
    """Replaces arrays of an .npz file; None takes one away."""

    def damage(root):
        path = root if root.suffix == ".npz" else root / "pneumoniamnist.npz"
        with np.load(path) as file:
            content = {**{name: file[name] for name in file.files}, **changes}
        np.savez(path, **{name: array for name, array in content.items() if array is not None})

    return damage


def flip_a_byte(root):
    content = bytearray(root.read_bytes())
    content[len(content) // 3] ^= 255
    root.write_bytes(content)


def truncate_packed(root):
    path = root / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-100]))


def ten_names(root):
    content = {"fine_label_names": ["name"] * 10}
    (root / "cifar-100-python" / "meta").write_bytes(pickle.dumps(content, protocol=2))


def break_pixels(root):
    """A png with its header whole and its pixels overwritten."""
    buffer = io.BytesIO()
    Image.new("L", (32, 32)).save(buffer, "png")
    content = buffer.getvalue()
    (root / "images_001/images/00000001_000.png").write_bytes(content[:40] + b"\0" * 20 + content[60:])


FASHION = ("fashion_mnist", "fashion_root", {"verify": False})
CIFAR10 = ("cifar10", "cifar10_root", {"verify": False})
CIFAR100 = ("cifar100", "cifar100_root", {"verify": False})
STRIPS = ("cifar10_subset", "cifar10_subset_root", {})
MED = ("pneumoniamnist", "medmnist_root", {"verify": False})
CHEST = ("chestxray14", "chest_root", {"size": 32})
CBIS = ("cbis_ddsm", "cbis_root", {"leave_out_shared_patients": True})
CROPS = ("cbis_ddsm", "cbis_root", {"leave_out_shared_patients": True, "images": "crop"})
MINI = ("mini_imagenet", "mini_root", {"complete": False})
FOLDER = ("image_folder", "folder_root", {})
FLAT = ("image_folder", "flat_root", {"labels": "labels.csv"})
NPZ = ("npz", "npz_path", {})

BATCH = "cifar-10-batches-py/data_batch_2"
TABLE = "Data_Entry_2017.csv"
FIRST = "images_001/images/00000001_000.png"
MASS = "mass_case_description_train_set.csv"
MASS_TEST = "mass_case_description_test_set.csv"
P1 = "CBIS-DDSM/Mass-Training_P_1_LEFT_CC"
HEADER = struct.pack(">2i", 2049, 10)

CASES = {
    # Fashion-MNIST
    "missing file": (
        FASHION,
        remove("t10k-labels-idx1-ubyte"),
        "'t10k-labels-idx1-ubyte' is missing: looked in .*zalando",
    ),
    "half of a packed file": (
        FASHION,
        cut("train-images-idx3-ubyte.gz"),
        "train-images-idx3-ubyte.gz' .*unpacking failed",
    ),
    "half of an idx file": (FASHION, cut("t10k-images-idx3-ubyte"), "t10k-images.*header promises .*bytes follow"),
    "short inside the packing": (FASHION, truncate_packed, "train-images.*header promises"),
    "wrong magic": (
        FASHION,
        copy("t10k-labels-idx1-ubyte", "t10k-images-idx3-ubyte"),
        "magic number must be 2051, got 2049",
    ),
    "empty idx file": (FASHION, write("t10k-labels-idx1-ubyte", b""), "t10k-labels.*0 bytes are too few"),
    "not packed at all": (FASHION, write("train-labels-idx1-ubyte.gz", b"<html>"), "train-labels.*unpacking failed"),
    "label out of range": (
        FASHION,
        write("t10k-labels-idx1-ubyte", HEADER + bytes([10] * 10)),
        r"t10k-labels.*in \[-1, 9\], got 10 to 10",
    ),
    "labels of other images": (
        FASHION,
        write("t10k-labels-idx1-ubyte", struct.pack(">2i", 2049, 9) + bytes(9)),
        "t10k-labels.*9 labels for the 10 images",
    ),
    # CIFAR
    "missing batch": (CIFAR10, remove(BATCH), "'data_batch_2' is missing: looked in .*toronto"),
    "half of a pickle": (CIFAR10, cut(BATCH), "data_batch_2' .*not a whole CIFAR pickle"),
    "web page for a pickle": (
        CIFAR10,
        write(BATCH, b"<html>not found</html>"),
        "data_batch_2' .*not a whole CIFAR pickle",
    ),
    "another pickle": (
        CIFAR10,
        copy("cifar-10-batches-py/batches.meta", BATCH),
        "data_batch_2' .*keys data, labels, got label_names",
    ),
    "names in the wrong number": (CIFAR100, ten_names, "meta' .*must be a list of 100 names"),
    "strip too short": (
        STRIPS,
        image("test_first_2000.png", (96, 32, 3)),
        "test_first_2000.png' .*128x32 pixels, got 96x32",
    ),
    "half of a strip": (
        STRIPS,
        cut("train_batch1_10000.png"),
        "train_batch1_10000.png' .*(pixels cannot be read|not a readable)",
    ),
    "label that is not its class": (
        STRIPS,
        edit("test_first_2000_labels.csv", "3,3,cat", "3,4,cat"),
        "test_first.*row 3 must be",
    ),
    "extra column": (
        STRIPS,
        edit("test_first_2000_labels.csv", "class\n", "class,fold\n"),
        "exactly the columns index, label, class, got",
    ),
    # MedMNIST and the user's npz
    "half of an npz": (MED, cut("pneumoniamnist.npz"), "pneumoniamnist.npz' .*not a whole .npz"),
    "missing array": (MED, arrays(val_labels=None), "pneumoniamnist.npz' .*val_labels, got"),
    "wrong shape": (MED, arrays(test_images=np.zeros((4, 28), np.uint8)), r"test_images' .*got \(4, 28\)"),
    "wrong size": (MED, arrays(test_images=np.zeros((4, 27, 27), np.uint8)), "three parts differ in the shape"),
    "more labels than images": (
        MED,
        arrays(test_labels=np.zeros((5, 1), np.uint8)),
        r"test_labels' .*\(4,\).*got \(5, 1\)",
    ),
    "flipped byte": (NPZ, flip_a_byte, "mine.npz' .*(cannot be read|not a whole)"),
    "pickled array": (NPZ, arrays(labels=np.array([None] * 6)), "mine.npz' .*it holds Python objects"),
    "not a number in images": (NPZ, arrays(images=np.full((6, 8, 8), np.nan)), "mine.npz' .*NaN"),
    "images of any range": (NPZ, arrays(images=np.full((6, 8, 8), 255.0)), r"mine.npz' .*in \[0, 1\], got 255.0"),
    "images of integers": (
        NPZ,
        arrays(images=np.zeros((6, 8, 8), np.int64)),
        "mine.npz' .*must be uint8 or floating point",
    ),
    "channels not to be told": (
        NPZ,
        arrays(images=np.zeros((6, 3, 8, 3), np.uint8)),
        "which axis of images holds the channels",
    ),
    "labels that are fractions": (
        NPZ,
        arrays(labels=np.full(6, 0.5)),
        "mine.npz' .*must be integers, got NaN or fractions",
    ),
    "labels that are words": (NPZ, arrays(labels=np.array(["a"] * 6)), "mine.npz' .*must be integers, got <U1"),
    "label below -1": (NPZ, arrays(labels=np.full(6, -2)), r"mine.npz' .*in \[-1"),
    "label without a name": (NPZ, arrays(class_names=np.array(["a", "b"])), r"mine.npz' .*in \[-1, 1\], got -1 to 2"),
    "image in both splits": (NPZ, arrays(train=np.array([0, 4])), "use an image once in train, test and val, '4'"),
    "index out of range": (NPZ, arrays(test=np.array([6])), r"mine.npz' .*'test' must be in \[0, 5\]"),
    "unknown array": (NPZ, arrays(label=np.zeros(6)), "mine.npz' .*must be among .*got label"),
    "same id twice": (NPZ, arrays(ids=np.array(list("abcdea"))), "the image 'a' stands there twice"),
    "no images": (NPZ, arrays(images=np.zeros((0, 8, 8), np.uint8), labels=None, test=None), "mine.npz' .*no image"),
    # ChestX-ray14
    "missing table": (CHEST, remove(TABLE), "'Data_Entry_2017_v2020.csv' or .*is missing: looked in .*nihcc"),
    "missing list": (CHEST, remove("test_list.txt"), "'test_list.txt' is missing: looked in .*nihcc"),
    "missing image": (CHEST, remove(FIRST), "1 of 6 images are missing, the first is '00000001_000.png': looked in"),
    "half of an image": (CHEST, cut(FIRST), "00000001_000.png' .*(pixels cannot be read|not a readable image)"),
    "image with broken pixels": (
        CHEST,
        break_pixels,
        "00000001_000.png' .*(pixels cannot be read|not a readable image)",
    ),
    "empty image": (CHEST, write(FIRST, b""), "00000001_000.png' .*not a readable image"),
    "image twice on disk": (
        CHEST,
        copy(FIRST, "images_002/images/00000001_000.png"),
        "00000001_000.png' .*the same image is in",
    ),
    "image twice in the table": (
        CHEST,
        edit(TABLE, "00000001_001.png", "00000001_000.png"),
        "'00000001_000.png' stands there twice",
    ),
    "image twice in a list": (
        CHEST,
        append("test_list.txt", "\n00000004_000.png\n"),
        "test_list.txt' .*'00000004_000.png' stands there twice",
    ),
    "image in both lists": (
        CHEST,
        append("test_list.txt", "\n00000001_000.png"),
        "test_list.txt' .*train_val_list.txt' too",
    ),
    "patient in both lists": (
        CHEST,
        edit(TABLE, "00000004_000.png,Mass|Nodule,0,4,", "00000004_000.png,Mass|Nodule,0,2,"),
        "patient 2 has images there and in",
    ),
    "image in no list": (
        CHEST,
        edit("test_list.txt", "00000003_001.png\n", ""),
        "'00000003_001.png' stands neither there nor",
    ),
    "list of other images": (
        CHEST,
        append("test_list.txt", "\n00000009_000.png"),
        "test_list.txt' .*1 names are not in",
    ),
    "unknown finding": (
        CHEST,
        edit(TABLE, "Hernia", "Hernie"),
        "Data_Entry_2017.csv' .*'00000003_000.png' are wrong: 'Hernie'",
    ),
    "finding and no finding": (CHEST, edit(TABLE, "Hernia", "Hernia|No Finding"), r"'Hernia\|No Finding' must be"),
    "row with an extra cell": (CHEST, edit(TABLE, "Hernia,", "Hernia,,"), "Data_Entry_2017.csv' .*row 5 has 13 cells"),
    "table without a column": (
        CHEST,
        edit(TABLE, "Finding Labels", "Labels"),
        "must have the columns Image Index, Finding Labels",
    ),
    "half of a table": (CHEST, cut(TABLE), "Data_Entry_2017.csv' .*row . has . cells|stands"),
    "table that is no text": (
        CHEST,
        write(TABLE, b"\xff\xfe\x00"),
        "Data_Entry_2017.csv' .*not (UTF-8|whole UTF-16) text",
    ),
    "empty table": (CHEST, write(TABLE, b""), "Data_Entry_2017.csv' .*it is empty"),
    # CBIS-DDSM
    "missing one of four tables": (
        CBIS,
        remove("calc_case_description_test_set.csv"),
        "'calc_case_description_test_set.csv' is missing",
    ),
    "patient in both tables": (
        CBIS,
        edit(MASS_TEST, "P_4", "P_1"),
        "patient P_1 is in the training table of the same kind",
    ),
    "table of the other split": (CBIS, copy(MASS, MASS_TEST), "must begin with 'Mass-Test_P_1_LEFT_CC'"),
    "unknown pathology": (
        CBIS,
        edit(MASS, "MALIGNANT", "UNPROVEN"),
        "mass_case.*'pathology' must be one of .*got 'UNPROVEN'",
    ),
    "abnormality twice": (
        CBIS,
        edit(MASS, "P_1,3,LEFT,CC,2", "P_1,3,LEFT,CC,1"),
        "abnormality 1 of 'Mass-Training_P_1_LEFT_CC' stands there twice",
    ),
    "rows out of step": (
        CBIS,
        edit(MASS, "P_2,3,LEFT", "P_2,3,RIGHT"),
        "must begin with 'Mass-Training_P_2_RIGHT_MLO'",
    ),
    "quote that never ends": (CBIS, cut(MASS), "mass_case_description_train_set.csv' .*(not a whole csv|cells)"),
    "missing mammogram": (
        CBIS,
        remove(P1),
        "1 of 6 images are missing, the first is that of 'Mass-Training_P_1_LEFT_CC': looked in",
    ),
    "two mammograms in one folder": (
        CBIS,
        copy(f"{P1}/07-20-2016/1-full/1-1.png", f"{P1}/1-2.png"),
        "Mass-Training_P_1_LEFT_CC' .*one image is expected there, got 2",
    ),
    "two masks": (
        CROPS,
        copy(f"{P1}_1/series/1-2.png", f"{P1}_1/series/1-1.png"),
        "Mass-Training_P_1_LEFT_CC_1' .*crop and mask",
    ),
    # Mini-ImageNet
    "missing split table": (MINI, remove("val.csv"), "'val.csv' is missing"),
    "all photographs missing": (MINI, remove("images"), "24 images are missing, the first is .*n0153282900000001.jpg"),
    "half of a photograph": (
        MINI,
        cut("images/n0153282900000001.jpg"),
        "n0153282900000001.jpg' .*(pixels cannot be read|not a readable image)",
    ),
    "class in two tables": (
        MINI,
        append("test.csv", "n0185567200000009.jpg,n01855672\n"),
        "test.csv' .*class 'n01855672' stands in an earlier table",
    ),
    "label of another class": (MINI, edit("val.csv", ",n01855672", ",n01855673"), "val.csv' .*must be its WordNet id"),
    "photograph twice": (MINI, append("val.csv", "n0185567200000001.jpg,n01855672\n"), "val.csv' .*stands there twice"),
    # a folder of images
    "empty folder": (FOLDER, lambda root: (shutil.rmtree(root), root.mkdir()), "pets' .*holds no image"),
    "empty class folder": (FOLDER, remove("train/dog/3.png"), "dog' .*the folder of a class holds no image"),
    "no training folder": (FOLDER, remove("train"), "train' is missing next to"),
    "class without training images": (
        FOLDER,
        lambda root: (root / "test/cat").rename(root / "test/cow"),
        "class 'cow' has test or validation images",
    ),
    "mixed sizes": (FOLDER, image("train/cat/2.png", (9, 8, 3)), "2.png' .*it is 9x8, .*1.png' is 8x8: state 'size'"),
    "image that is none": (FOLDER, write("train/cat/2.png", b"hello"), "2.png' .*not a readable image"),
    "image outside the classes": (FOLDER, image("train/7.png", (8, 8)), "train' .*'7.png' lies next to the folders"),
    "folder outside the split": (FOLDER, lambda root: (root / "cow").mkdir(), "cow' .*it lies next to 'train'"),
    "table names no image": (
        FLAT,
        append("labels.csv", "9.png,1\n"),
        "labels.csv' .*1 of its ids are not among the images, the first is '9.png'",
    ),
    "table names an image twice": (FLAT, append("labels.csv", "0.png,9\n"), "labels.csv' .*'0.png' stands there twice"),
    "missing label table": (FLAT, remove("labels.csv"), "labels.csv' is missing"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_error(case, request):
    (name, fixture, options), damage, message = CASES[case]
    root = request.getfixturevalue(fixture)
    if "labels" in options:
        options = {**options, "labels": root / options["labels"]}

    def read():
        dataset = get_dataset(name, root, **options)
        dataset.fetch(torch.arange(len(dataset)))

    read()
    damage(root)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read()
