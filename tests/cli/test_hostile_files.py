"""Files that claim more than they hold: looked at before they are unfolded."""

import zipfile

import numpy as np
import pytest
import torch

from tg_crepe.cli._inputs import read_features


def test_a_tensor_that_repeats_one_number_is_not_unfolded(tmp_path):
    torch.save(torch.zeros(1).expand(100_000, 100_000), tmp_path / "x.pt")
    with pytest.raises(ValueError, match="is made of fewer numbers than it shows"):
        read_features(tmp_path / "x.pt")


@pytest.mark.parametrize("ids", [5, "abc", {"a": 1}, [1.5, 2.5], [["a"], ["b"]]])
def test_ids_that_are_no_list_of_names_are_one_line(tmp_path, ids):
    torch.save({"x": torch.rand(2, 3), "ids": ids}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="'ids' must be a list of names, got"):
        read_features(tmp_path / "x.pt")


@pytest.mark.parametrize("ending", ["npz", "pt"])
def test_a_zip_that_unfolds_to_gigabytes_is_refused_by_its_directory(tmp_path, monkeypatch, ending):
    monkeypatch.setattr("tg_crepe._files._LARGE", 1 << 20)
    path = tmp_path / f"x.{ending}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", bytes(1 << 21))
    with pytest.raises(ValueError, match=r"would unfold to .* GB"):
        read_features(path)


def test_ordinary_compressed_arrays_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("tg_crepe._files._LARGE", 1 << 10)
    x = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    np.savez_compressed(tmp_path / "x.npz", x=x)
    np.testing.assert_array_equal(read_features(tmp_path / "x.npz").x, x)
