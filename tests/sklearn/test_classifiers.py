from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the estimators need the extra 'sklearn'")

from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from tg_crepe import LGC, GraphWarning
from tg_crepe.sklearn import CrepeClassifier, EnergyClassifier, labelled_scorer

ESTIMATORS = [CrepeClassifier(n_neighbors=10), EnergyClassifier("harmonic", n_neighbors=10)]

#: The one check whose data says something else than it means: its classes are -1 and 1, and -1 is the marker.
EXPECTED = {"check_classifiers_classes": "its classes are -1 and 1, and -1 marks an unlabelled row"}


@pytest.fixture(scope="module")
def moons() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, their classes, and the classes with -1 at all but three of each."""
    X, truth = make_moons(200, noise=0.08, random_state=0)
    y = np.full(200, -1)
    for c in (0, 1):
        y[np.flatnonzero(truth == c)[:3]] = c
    return X, truth, y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [CrepeClassifier(), EnergyClassifier()], ids=lambda e: type(e).__name__)
def test_check_estimator_passes(estimator):
    checks = check_estimator(estimator, expected_failed_checks=EXPECTED, on_skip=None)
    assert {check["check_name"] for check in checks if check["status"] == "xfail"} == set(EXPECTED)


@pytest.mark.filterwarnings("ignore")
def test_with_another_marker_the_expected_failure_passes_too():
    from sklearn.utils import estimator_checks

    estimator_checks.check_classifiers_classes("CrepeClassifier", CrepeClassifier(unlabeled="?"))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_fit_labels_every_row_and_keeps_what_was_given(estimator, moons):
    X, truth, y = moons
    model = clone(estimator).fit(X, y)
    assert (model.transduction_ == truth).mean() > 0.85
    np.testing.assert_array_equal(model.transduction_[y >= 0], y[y >= 0])
    assert model.label_distributions_.shape == (200, 2)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1, rtol=1e-5)
    assert (model.certainty_[y >= 0] == 1).all()
    assert model.reached_.all()
    assert model.status_ == "converged"


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_fitted_rows_are_predicted_as_they_were_inferred(estimator, moons):
    X, _, y = moons
    model = clone(estimator).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.transduction_)
    new = model.predict_proba(X + 0.01)
    np.testing.assert_allclose(new.sum(axis=1), 1)
    assert (model.predict(X + 0.01) == model.transduction_).mean() > 0.97


@pytest.mark.parametrize(
    ("marker", "names"), [("", ["a", "b"]), (None, ["a", "b"]), (np.nan, [1.0, 2.0]), (-1, ["a", "b"])]
)
def test_any_marker_and_any_kind_of_label(marker, names, moons):
    X, _, y = moons
    labels = np.array([names[c] if c >= 0 else marker for c in y], dtype=object)
    if marker is np.nan:
        labels = labels.astype(float)
    model = CrepeClassifier(n_neighbors=10, unlabeled=marker).fit(X, labels)
    assert model.classes_.tolist() == names
    reference = CrepeClassifier(n_neighbors=10).fit(X, y)
    np.testing.assert_array_equal(model.transduction_, model.classes_[reference.transduction_])
    assert set(model.predict(X)) == set(names)


def test_rows_out_of_reach_get_the_marker():
    X = np.concatenate([np.random.default_rng(0).normal(size=(20, 2)), np.full((5, 2), 100.0)])
    y = np.array([0, 1] + [-1] * 23)
    for labels, marker in ((y, -1), (np.array(["a", "b"] + ["?"] * 23), "?")):
        with pytest.warns(GraphWarning, match="5 node"):
            model = CrepeClassifier(n_neighbors=3, unlabeled=marker).fit(X, labels)
        assert (model.transduction_[20:] == marker).all()
        assert not model.reached_[20:].any()
        assert set(model.predict(X[20:])) <= set(model.classes_)  # by the nearest rows that know something


@pytest.mark.parametrize("model", ["crepe", "lgc"])
def test_a_precomputed_graph_is_taken_as_it_is(model, moons):
    X, truth, y = moons
    graph = kneighbors_graph(X, 10, mode="connectivity")
    graph = graph.maximum(graph.T)
    fitted = EnergyClassifier(model, affinity="precomputed").fit(graph, y)
    assert (fitted.transduction_ == truth).mean() > 0.8
    dense = EnergyClassifier(model, affinity="precomputed").fit(graph.toarray(), y)
    np.testing.assert_array_equal(fitted.transduction_, dense.transduction_)
    held = slice(0, 50)
    inner = EnergyClassifier(model, affinity="precomputed").fit(
        graph[50:, 50:], np.where(np.arange(200) % 9, -1, truth)[50:]
    )
    assert (inner.predict(graph[held, 50:]) == truth[held]).mean() > 0.8
    with pytest.raises(ValueError, match="square matrix"):
        EnergyClassifier(model, affinity="precomputed").fit(graph[:, :50], y)


def test_a_sparse_matrix_gives_the_graph_of_the_dense_one(moons):
    X, _, y = moons
    X = np.where(np.abs(X) < 0.05, 0, X)
    for metric in ("auto", "euclidean", "cosine"):
        dense = CrepeClassifier(n_neighbors=10, metric=metric).fit(X, y)
        thin = CrepeClassifier(n_neighbors=10, metric=metric).fit(sparse.csr_array(X), y)
        np.testing.assert_allclose(thin.label_distributions_, dense.label_distributions_, atol=2e-3)
        np.testing.assert_allclose(
            thin.predict_proba(sparse.csr_array(X[:9] + 1)), dense.predict_proba(X[:9] + 1), atol=1e-3
        )


def test_too_many_neighbours_are_clipped_with_a_warning():
    X, y = make_moons(8, random_state=0)
    with pytest.warns(GraphWarning, match=r"n_neighbors = 20 is more than the 7 other row"):
        model = EnergyClassifier(n_neighbors=20).fit(X, y)
    assert model.predict(X).tolist() == y.tolist()


def test_sample_weight_is_refused(moons):
    X, _, y = moons
    with pytest.raises(TypeError, match=r"'sample_weight'.*no weight a row"):
        CrepeClassifier().fit(X, y, sample_weight=np.ones(200))


def test_score_leaves_unlabelled_rows_out(moons):
    X, truth, y = moons
    model = CrepeClassifier(n_neighbors=10).fit(X, y)
    half = np.where(np.arange(200) % 2, truth, -1)
    expected = (model.predict(X) == truth)[1::2].mean()
    assert model.score(X, half) == pytest.approx(expected)
    assert labelled_scorer()(model, X, half) == pytest.approx(expected)
    assert labelled_scorer("balanced_accuracy")(make_pipeline(model), X, half) == pytest.approx(expected, abs=0.05)
    with pytest.raises(ValueError, match="label other than the marker"):
        model.score(X, np.full(200, -1))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (CrepeClassifier(n_neighbors=0), "'n_neighbors' must be an integer >= 1, got 0"),
        (CrepeClassifier(metric="manhattan"), "'metric' must be one of 'auto', 'cosine', 'euclidean'"),
        (CrepeClassifier(affinity="rbf"), "'affinity' must be one of 'knn', 'precomputed'"),
        (CrepeClassifier(class_volume="none"), "'class_volume' must be one of"),
        (EnergyClassifier("magic"), "'magic'"),
    ],
)
def test_bad_parameters_are_named_by_fit(estimator, message, moons):
    with pytest.raises(ValueError, match=message):
        estimator.fit(moons[0], moons[2])


def test_labels_must_hold_a_class(moons):
    with pytest.raises(ValueError, match="label other than the marker unlabeled=-1, got none"):
        CrepeClassifier().fit(moons[0], np.full(200, -1))


def test_clone_pickle_and_parameters(moons):
    X, _, y = moons
    model = EnergyClassifier(LGC(alpha=0.9), n_neighbors=7)
    copy = clone(model)
    assert copy.get_params()["model"].alpha == 0.9
    assert copy.set_params(n_neighbors=9).n_neighbors == 9
    fitted = model.fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X + 0.1), fitted.predict_proba(X + 0.1))


def test_pipelines_and_searches(moons):
    X, truth, _ = moons
    y = np.where(np.arange(200) % 3 == 0, truth, -1)
    pipeline = make_pipeline(StandardScaler(), CrepeClassifier())
    search = GridSearchCV(pipeline, {"crepeclassifier__n_neighbors": [5, 10]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    by_model = GridSearchCV(EnergyClassifier(n_neighbors=8), {"model": ["lgc", LGC(alpha=0.5)]}, cv=2)
    assert by_model.fit(X, y).best_score_ > 0.9
    graph = kneighbors_graph(X, 10, mode="connectivity")
    scores = cross_val_score(EnergyClassifier(affinity="precomputed"), graph.maximum(graph.T), y, cv=2)
    assert scores.min() > 0.8


def test_held_out_digits_are_within_a_point_of_the_transductive_error():
    X, truth = load_digits(return_X_y=True)
    inside, outside = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(truth))
        train, test = order[:1347], order[1347:]
        y = np.full(len(train), -1)
        for c in range(10):
            y[rng.choice(np.flatnonzero(truth[train] == c), 5, replace=False)] = c
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphWarning)
            model = CrepeClassifier(n_neighbors=10).fit(X[train], y)
        inside.append(np.mean(model.transduction_[y < 0] != truth[train][y < 0]))
        outside.append(np.mean(model.predict(X[test]) != truth[test]))
    assert np.mean(outside) - np.mean(inside) < 0.01


def test_without_scikit_learn_the_import_says_what_to_install(monkeypatch):
    import importlib
    import importlib.util
    import sys

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sklearn" else find_spec(name))
    for name in [name for name in sys.modules if name.startswith("tg_crepe.sklearn")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"pip install \"tg-crepe\[sklearn\]\""):
        importlib.import_module("tg_crepe.sklearn")


def table_and_directions() -> list[tuple[np.ndarray, str, bool]]:
    """Three groups in columns of very different scale, in lengths and directions, and in few columns."""
    rng, group = np.random.default_rng(0), np.arange(300) % 3
    spread = 4 * np.eye(3, 5)[group] + rng.normal(size=(300, 5))
    wide = rng.normal(size=(3, 40))[group] + 1.5 * rng.normal(size=(300, 40))
    wide *= rng.lognormal(sigma=0.3, size=(300, 1))
    return [(spread * [1, 1000, 0.01, 1, 0], "euclidean", True), (wide, "cosine", False), (spread, "euclidean", False)]


@pytest.mark.filterwarnings("ignore:columns of 'x'")
@pytest.mark.parametrize("case", range(3))
def test_the_metric_is_chosen_when_fitting_and_kept_for_new_points(case):
    X, metric, scaled = table_and_directions()[case]
    y = np.where(np.arange(300) < 30, np.arange(300) % 3, -1)
    model = CrepeClassifier(n_neighbors=10).fit(X, y)
    assert (model.metric_, model.factor_ is not None) == (metric, scaled)
    points = StandardScaler().fit_transform(X) if scaled else X
    named = CrepeClassifier(n_neighbors=10, metric=metric).fit(points, y)
    np.testing.assert_array_equal(model.transduction_, named.transduction_)
    np.testing.assert_allclose(model.label_distributions_, named.label_distributions_, atol=1e-3)
    new = X[:50] * 1.01
    new_points = StandardScaler().fit(X).transform(new) if scaled else new
    np.testing.assert_allclose(model.predict_proba(new), named.predict_proba(new_points), atol=1e-3)
    np.testing.assert_array_equal(model.predict(X), model.transduction_)
    assert (pickle.loads(pickle.dumps(model)).predict(new) == model.predict(new)).all()
    thin = CrepeClassifier(n_neighbors=10).fit(sparse.csr_array(X), y)
    assert (thin.metric_, thin.factor_ is not None) == (metric, scaled)
    if scaled:
        np.testing.assert_allclose(thin.factor_, model.factor_, rtol=1e-6)
        np.testing.assert_allclose(model.factor_[:4], 1 / X.std(axis=0)[:4], rtol=1e-6)
        assert model.factor_[4] == 0
    plain = CrepeClassifier(n_neighbors=10, head=None).fit(X, y)  # sparse features have no head
    np.testing.assert_allclose(thin.predict_proba(sparse.csr_array(new)), plain.predict_proba(new), atol=1e-3)


def test_standardised_columns_are_said_once():
    X = table_and_directions()[0][0]
    y = np.where(np.arange(300) < 30, np.arange(300) % 3, -1)
    for given in (X, sparse.csr_array(X)):
        with pytest.warns(GraphWarning, match="very different scale") as record:
            EnergyClassifier(n_neighbors=10).fit(given, y)
        assert len(record) == 1
        assert record[0].filename == __file__
    EnergyClassifier(n_neighbors=10, metric="euclidean").fit(X, y)  # a warning would be an error here


def stripes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes that one of many columns tells apart, which a graph of all columns hardly sees."""
    rng, truth = np.random.default_rng(0), np.arange(300) % 2
    X = rng.normal(size=(300, 40))
    X[:, 0] += 3 * truth
    return X, truth, np.where(np.arange(300) < 100, truth, -1)


def test_the_head_helps_where_a_linear_model_does_and_not_on_moons(moons):
    X, truth, y = stripes()
    both, alone = (CrepeClassifier(n_neighbors=10, head=head).fit(X, y) for head in ("linear", None))
    assert (both.transduction_ != truth).mean() < 0.8 * (alone.transduction_ != truth).mean()
    assert alone.head_ is None
    assert both.expected_error_ < alone.expected_error_
    X, truth, y = moons
    both, alone = (CrepeClassifier(n_neighbors=10, head=head).fit(X, y) for head in ("linear", None))
    assert (both.transduction_ != truth).mean() <= (alone.transduction_ != truth).mean() + 0.01


def test_new_points_go_by_neighbours_and_head():
    X, truth, y = stripes()
    rng, new_truth = np.random.default_rng(1), np.arange(400) % 2
    new = rng.normal(size=(400, 40))
    new[:, 0] += 3 * new_truth
    both, alone = (CrepeClassifier(n_neighbors=10, head=head).fit(X, y) for head in ("linear", None))
    error = (both.predict(new) != new_truth).mean()
    assert error < (alone.predict(new) != new_truth).mean()
    assert error < (both.transduction_ != truth)[y < 0].mean() + 0.08
    np.testing.assert_array_equal(both.predict(X), both.transduction_)
    np.testing.assert_allclose(both.predict_proba(new).sum(axis=1), 1)


def test_evidence_takes_the_place_of_the_head():
    X, truth, y = stripes()
    prior = np.where(truth[:, None] == np.arange(2), 0.9, 0.1)
    prior[::5] = np.nan
    model = CrepeClassifier(n_neighbors=10).fit(X, y, prior=prior)
    assert (model.transduction_ != truth).mean() < 0.1
    assert EnergyClassifier("harmonic", n_neighbors=10).fit(X, y, prior=prior).transduction_.shape == truth.shape
    with pytest.raises(ValueError, match=r"'prior' must be of shape \(n_samples, n_classes\) = \(300, 2\), got"):
        model.fit(X, y, prior=prior[:, :1])
    with pytest.raises(ValueError, match="'head' must be"):
        CrepeClassifier(head="forest").fit(X, y)


@pytest.mark.parametrize("missing", ["", None, float("nan"), "-1", " ", "nan"])
def test_every_missing_value_is_unlabelled_beside_text(missing):
    from tg_crepe.sklearn import CrepeClassifier

    rng = np.random.default_rng(0)
    y = np.array(["cat", "dog"] * 20, dtype=object)
    x = rng.normal(size=(40, 3)) + 4 * (y == "cat")[:, None]
    y[6:] = missing
    model = CrepeClassifier(n_neighbors=5).fit(x, y)
    assert model.classes_.tolist() == ["cat", "dog"]
    assert (model.transduction_ == np.array(["cat", "dog"] * 20)).all()


@pytest.mark.parametrize("dtype", ["string", "object", "category", "Int64", "float64"])
def test_missing_values_of_pandas_are_unlabelled_in_estimators(dtype):
    pandas = pytest.importorskip("pandas")
    from tg_crepe.sklearn import CrepeClassifier

    rng = np.random.default_rng(0)
    numbers = dtype in ("Int64", "float64")
    names = [0, 1] if numbers else ["cat", "dog"]
    truth = np.array([0, 1] * 20)
    x = rng.normal(size=(40, 3)) + 4 * truth[:, None]
    y = pandas.Series([names[t] if i < 6 else None for i, t in enumerate(truth)], dtype=dtype)
    model = CrepeClassifier(n_neighbors=5).fit(x, y)
    assert len(model.classes_) == 2
    assert (model.transduction_ == np.array(names)[truth]).all()
