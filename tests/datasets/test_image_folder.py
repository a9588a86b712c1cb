import numpy as np
import pytest
import torch
from PIL import Image

from tg_crepe.datasets import load_image_folder


def test_split_folders(folder_root):
    dataset = load_image_folder(folder_root)
    assert repr(dataset) == "ImageDataset(pets, 4 train, 2 test, 3x8x8, 2 classes)"
    assert dataset.class_names == ("cat", "dog")
    assert dataset.targets.tolist() == [0, 0, 1, -1, 0, 1]
    assert dataset.ids[3] == "train/unlabelled/4.png"
    with Image.open(folder_root / "test" / "dog" / "6.png") as image:
        expected = np.asarray(image).transpose(2, 0, 1)
    assert np.array_equal(dataset.fetch(torch.tensor([5]))[0].numpy(), expected)


def test_class_folders_without_a_split_are_training_images(folder_root):
    dataset = load_image_folder(folder_root / "train")
    assert dataset.targets.tolist() == [0, 0, 1, -1]
    assert dataset.test.numel() == 0


def test_a_table_with_blanks_labels_a_flat_folder(flat_root):
    dataset = load_image_folder(flat_root, channels=1, labels=flat_root / "labels.csv")
    assert dataset.class_names == ("9", "10")  # by number
    assert dataset.targets.tolist() == [1, 0, -1, -1]  # a blank, and no row


def test_images_are_read_without_any_label(flat_root):
    labelled = load_image_folder(flat_root, labels=flat_root / "labels.csv")
    (flat_root / "labels.csv").unlink()
    dataset = load_image_folder(flat_root)
    assert dataset.targets.tolist() == [-1] * 4
    assert dataset.class_names == ()
    assert torch.equal(dataset.fetch(dataset.train), labelled.fetch(labelled.train))


def test_files_of_any_size_and_mode_come_to_one_size(folder_root):
    modes = {"L": (5, 7), "RGBA": (9, 9), "P": (16, 4), "1": (8, 8), "LA": (3, 3)}
    for mode, size in modes.items():
        Image.new("RGB", size, (255, 0, 0)).convert("L" if mode in ("LA", "1") else "RGB").convert(mode).save(
            folder_root / "train" / "cat" / f"mode {mode}.png"
        )
    (folder_root / "train" / "cat" / "notes.txt").write_text("not an image")
    (folder_root / "train" / "cat" / ".hidden.png").write_text("not an image either")
    dataset = load_image_folder(folder_root, size=(6, 4))
    assert dataset.fetch(torch.arange(11)).shape == (11, 3, 6, 4)
    image = dataset.fetch(torch.tensor([dataset.ids.index("train/cat/mode RGBA.png")]))
    assert image.flatten(2).unique(dim=2).flatten().tolist() == [255, 0, 0]


def test_a_palette_with_transparency_gives_no_warning(folder_root):
    image = Image.new("P", (8, 8))
    image.putpalette([10, 20, 30] * 256)
    image.save(folder_root / "train" / "cat" / "1.png", transparency=bytes([0, 128, 255]))
    dataset = load_image_folder(folder_root)
    assert dataset.fetch(torch.tensor([0]))[0, :, 0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize(("option", "value"), [("size", (1, 2, 3)), ("size", 1.5), ("channels", 2)])
def test_bad_options_are_named(folder_root, option, value):
    with pytest.raises(ValueError, match=f"'{option}' must be"):
        load_image_folder(folder_root, **{option: value})
