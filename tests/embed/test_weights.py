from __future__ import annotations

import pickle

import pytest
import torch

from tg_crepe.embed.weights import find_in_folder, missing_model, read_weights, weights_checksum

TENSORS = {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.ones(3, dtype=torch.int64)}


class Evil:
    def __reduce__(self):
        return (print, ("code was run",))


def test_safetensors_and_torch_files_hold_the_same(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch", reason="it comes with the extra 'embed'")
    safetensors.save_file(TENSORS, tmp_path / "a.safetensors")
    torch.save(TENSORS, tmp_path / "a.pth")
    torch.save({"state_dict": TENSORS, "epoch": 3}, tmp_path / "b.pth")
    torch.save({f"module.{name}": value for name, value in TENSORS.items()}, tmp_path / "c.pt")
    expected = weights_checksum(TENSORS)
    for name in ("a.safetensors", "a.pth", "b.pth", "c.pt"):
        found = read_weights(tmp_path / name)
        assert found.keys() == TENSORS.keys()
        assert weights_checksum(found) == expected


def test_checksum_changes_with_a_number_a_name_and_a_shape():
    other = {"a.weight": TENSORS["a.weight"] + 1e-6, "b": TENSORS["b"]}
    renamed = {"a": TENSORS["a.weight"], "b": TENSORS["b"]}
    reshaped = {"a.weight": TENSORS["a.weight"].view(3, 2), "b": TENSORS["b"]}
    assert len({weights_checksum(tensors) for tensors in (TENSORS, other, renamed, reshaped)}) == 4


def test_code_in_a_file_of_weights_is_never_run(tmp_path, capsys):
    with (tmp_path / "evil.pth").open("wb") as file:
        pickle.dump({"weight": Evil()}, file)
    torch.save({"weight": Evil()}, tmp_path / "evil.pt")
    for name in ("evil.pth", "evil.pt"):
        with pytest.raises(ValueError, match=r"evil\.pth?' cannot be used"):
            read_weights(tmp_path / name)
    assert "code was run" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pth", b"half a file", "not a whole file of weights"),
        ("a.safetensors", b"half a file", "not a whole file of weights"),
        ("a.onnx", b"", "must end in one of"),
    ],
)
def test_damaged_weights_are_one_line(tmp_path, name, content, message):
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors", reason="it comes with the extra 'embed'")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_weights(tmp_path / name)


def test_a_file_without_tensors_is_refused(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match="must hold tensors by name"):
        read_weights(tmp_path / "a.pth")
    with pytest.raises(FileNotFoundError, match="is missing"):
        read_weights(tmp_path / "b.pth")


def test_the_folder_of_models_is_searched(tmp_path, monkeypatch):
    monkeypatch.delenv("TG_CREPE_MODELS", raising=False)
    assert find_in_folder(("net",)) is None
    monkeypatch.setenv("TG_CREPE_MODELS", str(tmp_path))
    assert find_in_folder(("net",)) is None
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "model.safetensors").write_bytes(b"")
    assert find_in_folder(("net.tag", "net")) == tmp_path / "net" / "model.safetensors"
    (tmp_path / "net.pth").write_bytes(b"")
    assert find_in_folder(("net",)) in (tmp_path / "net" / "model.safetensors", tmp_path / "net.pth")


def test_a_missing_model_says_what_where_and_how(monkeypatch):
    monkeypatch.setenv("TG_CREPE_MODELS", "/models")
    line = str(missing_model("timm:net", "'timm/net'", "the cache '/c'", "https://hub", ["a file", "a folder"]))
    for part in ("'timm:net' is not here", "'/models'", "'/c'", "https://hub", "a file, or by a folder"):
        assert part in line
    assert "\n" not in line
