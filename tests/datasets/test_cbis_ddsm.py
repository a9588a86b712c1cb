import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from tg_crepe.datasets import DatasetWarning, load_cbis_ddsm
from tg_crepe.datasets._cbis_tables import read_cases


@pytest.mark.filterwarnings("ignore::tg_crepe.datasets.DatasetWarning")
def test_the_real_tables(data_root):
    crops = read_cases(data_root, "crop", ("mass", "calc"), False)
    assert len(crops) == 1318 + 378 + 1546 + 326
    mass = read_cases(data_root, "crop", ("mass",), False)
    train = [case.severity for case in mass if case.split == "train"]
    assert np.bincount(train).tolist() == [104, 577, 637]
    assert np.bincount([case.severity for case in mass if case.split == "test"]).tolist() == [37, 194, 147]
    full = read_cases(data_root, "full", ("mass", "calc"), False)
    assert len(full) == 3103  # as the paper says
    assert len({case.patient for case in full}) == 1566


def test_31_real_patients_are_in_training_and_test(data_root):
    with pytest.warns(DatasetWarning, match="31 patients are in training for one kind and in test for the other"):
        cases = read_cases(data_root, "crop", ("mass", "calc"), False)
    kept = read_cases(data_root, "crop", ("mass", "calc"), True)
    train, test = ({case.patient for case in kept if case.split == split} for split in ("train", "test"))
    assert not train & test
    assert [case for case in kept if case.split == "test"] == [case for case in cases if case.split == "test"]


@pytest.mark.filterwarnings("ignore::tg_crepe.datasets.DatasetWarning")
def test_real_rows_find_their_images(data_root, tmp_path):
    for path in (data_root / "cbis_ddsm").glob("*.csv"):
        rows = path.read_bytes().split(b"\r\n")  # a cell ends with a lone newline, a row with both
        (tmp_path / path.name).write_bytes(b"\r\n".join(rows[:6]) + b"\r\n")
    cases = read_cases(tmp_path, "full", ("mass", "calc"), False)
    for seed, case in enumerate(cases):
        Image.fromarray(np.full((6, 4), seed, np.uint8)).save(tmp_path / f"{case.folder}.png")
    dataset = load_cbis_ddsm(tmp_path, size=(6, 4))
    assert dataset.ids == tuple(case.folder for case in cases)
    assert dataset.fetch(torch.arange(len(cases)))[:, 0, 0, 0].tolist() == list(range(len(cases)))


@pytest.mark.filterwarnings("ignore::tg_crepe.datasets.DatasetWarning")
def test_the_most_severe_abnormality_gives_the_class_of_a_mammogram(cbis_root):
    dataset = load_cbis_ddsm(cbis_root)
    assert repr(dataset) == "ImageDataset(cbis_ddsm, 4 train, 3 test, 1x64x64, 3 classes)"
    assert dataset.class_names == ("BENIGN_WITHOUT_CALLBACK", "BENIGN", "MALIGNANT")
    assert dataset.ids[:2] == ("Mass-Training_P_1_LEFT_CC", "Mass-Training_P_2_LEFT_MLO")
    assert dataset.targets.tolist() == [2, 1, 2, 0, 0, 1, 2]
    two = load_cbis_ddsm(cbis_root, num_classes=2)
    assert two.class_names == ("BENIGN", "MALIGNANT")
    assert two.targets.tolist() == [1, 0, 1, 0, 0, 0, 1]


@pytest.mark.filterwarnings("ignore::tg_crepe.datasets.DatasetWarning")
def test_crops_are_told_from_masks_whatever_their_names(cbis_root):
    dataset = load_cbis_ddsm(cbis_root, size=(9, 8), images="crop")
    assert dataset.fetch(torch.arange(8))[:, 0, 0, 0].tolist() == [101, 102, 103, 104, 105, 106, 107, 108]
    assert dataset.ids[:2] == ("Mass-Training_P_1_LEFT_CC_1", "Mass-Training_P_1_LEFT_CC_2")


def test_crop_and_mask_of_one_size_are_told_apart_by_their_pixels(cbis_root):
    folder = cbis_root / "CBIS-DDSM" / "Mass-Test_P_3_LEFT_CC_1" / "series"
    grey = np.arange(60 * 40, dtype=np.uint8).reshape(60, 40)
    Image.fromarray(grey).save(folder / "1-1.png")
    dataset = load_cbis_ddsm(cbis_root, size=(60, 40), images="crop", kinds=("mass",))
    place = dataset.ids.index("Mass-Test_P_3_LEFT_CC_1")
    assert np.array_equal(dataset.fetch(torch.tensor([place]))[0, 0].numpy(), grey)


def test_shared_patients_are_warned_of_or_left_out_of_training(cbis_root):
    with pytest.warns(DatasetWarning, match="1 patients"):
        dataset = load_cbis_ddsm(cbis_root)
    assert dataset.groups.count("P_3") == 2
    kept = load_cbis_ddsm(cbis_root, leave_out_shared_patients=True)
    assert (len(kept.train), len(kept.test)) == (3, 3)
    assert [kept.groups[i] for i in kept.train.tolist()] == ["P_1", "P_2", "P_5"]


def test_one_kind_has_no_shared_patient_and_a_part_is_named_a_subset(cbis_root):
    assert len(load_cbis_ddsm(cbis_root, kinds=("calc",))) == 3
    shutil.rmtree(cbis_root / "CBIS-DDSM" / "Calc-Test_P_6_LEFT_CC")
    with pytest.raises(FileNotFoundError, match=r"1 of 3 images are missing, the first is that of 'Calc-Test_P_6"):
        load_cbis_ddsm(cbis_root, kinds=("calc",))
    assert load_cbis_ddsm(cbis_root, kinds=("calc",), complete=False).name == "cbis_ddsm (subset)"


@pytest.mark.parametrize(
    ("option", "value"),
    [("images", "roi"), ("num_classes", 4), ("kinds", "mass"), ("kinds", ()), ("kinds", ("cyst",)), ("size", 0)],
)
def test_bad_options_are_named(cbis_root, option, value):
    with pytest.raises(ValueError, match=f"'{option}' must be"):
        load_cbis_ddsm(cbis_root, **{option: value})


def test_16_bit_png_is_scaled_and_not_cut_off(cbis_root):
    path = cbis_root / "CBIS-DDSM" / "Calc-Test_P_6_LEFT_CC" / "07-20-2016" / "1-full" / "1-1.png"
    grey = np.linspace(0, 65535, 60 * 40).astype(np.uint16).reshape(60, 40)
    Image.fromarray(grey).save(path)
    dataset = load_cbis_ddsm(cbis_root, size=(60, 40), kinds=("calc",))
    image = dataset.fetch(dataset.test)[0, 0].numpy()
    assert np.array_equal(image, np.rint(grey / 257).astype(np.uint8))


def write_dicom(path, pixels, photometric="MONOCHROME2"):
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import FileDataset, FileMetaDataset

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    file = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    file.Rows, file.Columns = pixels.shape
    file.SamplesPerPixel, file.PixelRepresentation = 1, 0
    file.PhotometricInterpretation = photometric
    file.BitsAllocated = file.BitsStored = 8 * pixels.dtype.itemsize
    file.HighBit = file.BitsStored - 1
    file.PixelData = pixels.tobytes()
    file["PixelData"].VR = "OW"
    file.save_as(path, enforce_file_format=True)


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_dicom_files_are_read(cbis_root, photometric):
    series = cbis_root / "CBIS-DDSM" / "Calc-Test_P_6_LEFT_CC_1" / "series"
    grey = np.linspace(0, 65535, 72).astype(np.uint16).reshape(9, 8)
    for path in list(series.iterdir()):
        path.unlink()
    write_dicom(series / "1-1.dcm", np.eye(60, 40, dtype=np.uint8) * 255)
    write_dicom(series / "1-2.dcm", grey, photometric)
    dataset = load_cbis_ddsm(cbis_root, size=(9, 8), images="crop", kinds=("calc",))
    image = dataset.fetch(dataset.test)[0, 0].numpy()
    expected = np.rint(grey / 257).astype(np.uint8)
    assert np.array_equal(image, expected if photometric == "MONOCHROME2" else 255 - expected)


def test_a_half_downloaded_dicom_file_is_named(cbis_root):
    folder = cbis_root / "CBIS-DDSM" / "Calc-Test_P_6_LEFT_CC" / "07-20-2016" / "1-full"
    (folder / "1-1.png").unlink()
    write_dicom(folder / "1-1.dcm", np.zeros((60, 40), np.uint16))
    content = (folder / "1-1.dcm").read_bytes()
    (folder / "1-1.dcm").write_bytes(content[: len(content) // 2])
    dataset = load_cbis_ddsm(cbis_root, kinds=("calc",))
    with pytest.raises(ValueError, match=r"1-1.dcm' cannot be used"):
        dataset.fetch(dataset.test)


def test_without_pydicom_the_extra_is_named(cbis_root, monkeypatch):
    import importlib.util

    folder = cbis_root / "CBIS-DDSM" / "Calc-Test_P_6_LEFT_CC" / "07-20-2016" / "1-full"
    (folder / "1-1.png").rename(folder / "1-1.dcm")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pydicom" else find(name))
    dataset = load_cbis_ddsm(cbis_root, kinds=("calc",))
    with pytest.raises(ImportError, match=r"'pydicom' is needed here .*tg-crepe\[medical\]"):
        dataset.fetch(dataset.test)
