from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="it comes with the extra 'sklearn'")
pytest.importorskip("PIL", reason="images need the extra 'vision'")

from embed_inputs import mean_colour, write_images
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tg_crepe.embed import get_encoder
from tg_crepe.sklearn import CrepeClassifier, Embedder


def lengths(texts):
    return [[len(text), text.count("a")] for text in texts]


def test_a_pipeline_goes_from_files_to_labels(tmp_path):
    classes = np.array(write_images(tmp_path, 30))
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    y = np.where(np.arange(30) < 6, classes, "?")
    model = make_pipeline(Embedder(mean_colour, kind="images"), CrepeClassifier(n_neighbors=5, unlabeled="?"))
    model.fit(paths, y)
    assert (model[-1].transduction_ == classes).all()
    assert (model.predict(paths[:3]) == classes[:3]).all()


def test_texts_images_and_frames_are_transformed():
    assert Embedder(lengths, kind="texts").fit_transform(["a", "bab"]).tolist() == [[1, 1], [3, 1]]
    images = [np.full((4, 4, 3), 51, np.uint8)]
    np.testing.assert_allclose(Embedder(mean_colour, kind="images").transform(images), [[0.2, 0.2, 0.2]], rtol=1e-6)
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"words": ["aa", "b"], "n": [1, 2]})
    embedder = Embedder(lengths, kind="texts", column="words")
    assert embedder.fit_transform(frame).tolist() == [[2, 2], [1, 0]]
    assert embedder.n_features_out_ == 2


def test_an_embedder_can_be_cloned_and_takes_an_encoder():
    encoder = get_encoder(lengths, kind="texts")
    embedder = Embedder(lengths, kind="texts", batch_size=3)
    assert clone(embedder).get_params() == embedder.get_params()
    assert Embedder(encoder).fit(["a"]).encoder_ is encoder


def test_a_function_without_a_kind_is_said():
    with pytest.raises(ValueError, match="'kind' must say"):
        Embedder(lengths).fit(["a"])
