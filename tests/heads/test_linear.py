"""The linear head against scikit-learn's logistic regression, and its file."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tg_crepe.graph.metric import Placement, find_placement
from tg_crepe.heads import LinearHead, head_evidence

linear_model = pytest.importorskip("sklearn.linear_model")


def table(seed: int = 0, rows: int = 150, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    x = rng.normal(size=(rows, 6))
    x[:, 0] += 2 * y
    x[:, 1] -= y
    return torch.from_numpy(x), torch.from_numpy(y)


def one_hot(y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(y).double()


def scaled(x: torch.Tensor) -> np.ndarray:
    x = x.numpy() - x.numpy().mean(axis=0)
    return x / np.sqrt((x**2).sum(axis=1).mean())


def test_hard_labels_are_logistic_regression():
    x, y = table()
    other = linear_model.LogisticRegression(C=100, max_iter=5000, tol=1e-10).fit(scaled(x), y)
    np.testing.assert_allclose(LinearHead.fit(x, one_hot(y))(x), other.predict_proba(scaled(x)), atol=5e-3)


def test_soft_labels_are_weighted_copies_of_hard_ones():
    x, y = table()
    soft = torch.softmax(one_hot(y) + torch.linspace(0, 1, len(y)).unsqueeze(1), dim=1)
    weight = torch.linspace(0, 2, len(y), dtype=torch.float64)
    rows = np.repeat(scaled(x), 3, axis=0)
    other = linear_model.LogisticRegression(C=100, max_iter=5000, tol=1e-10)
    other.fit(rows, np.tile(np.arange(3), len(y)), sample_weight=(soft * weight.unsqueeze(1)).numpy().ravel())
    np.testing.assert_allclose(LinearHead.fit(x, soft, weight)(x), other.predict_proba(scaled(x)), atol=5e-3)


@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-10, 10))
def test_unit_and_origin_of_the_features_do_not_matter(scale, shift):
    x, y = table(rows=60)
    plain, moved = LinearHead.fit(x, one_hot(y))(x), LinearHead.fit(scale * x + shift, one_hot(y))(scale * x + shift)
    torch.testing.assert_close(plain, moved, atol=1e-3, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_types_and_metrics(dtype, metric):
    x, y = table()
    head = LinearHead.fit(x.to(dtype), one_hot(y), placement=Placement(metric))
    prob = head(x.to(dtype))
    assert prob.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(prob.sum(dim=1), torch.ones_like(prob[:, 0]))
    assert float((prob.argmax(dim=1) == y).double().mean()) > 0.7


@pytest.mark.filterwarnings("ignore:columns of 'x'")
def test_a_head_is_read_as_it_was_written(tmp_path):
    x, y = table()
    placement = find_placement(x * torch.tensor([1e3, 1, 1, 1e-3, 1, 1]), "auto")
    head = LinearHead.fit(x, one_hot(y), placement=placement)
    head.save(tmp_path / "head.json")
    again = LinearHead.load(tmp_path / "head.json")
    assert torch.equal(again(x), head(x))
    assert repr(again) == repr(head)
    assert [path.name for path in tmp_path.iterdir()] == ["head.json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"kind": "tg_crepe linear head"}',
        "[" * 100_000,
        json.dumps({"kind": "another"}),
        json.dumps(
            {
                "kind": "tg_crepe linear head",
                "metric": "cosine",
                "factor": None,
                "centre": [0.0],
                "size": 1.0,
                "weight": [[1.0, 2.0]],
                "bias": [0.0],
                "dtype": "float64",
            }
        ),
    ],
)
def test_another_file_is_one_clear_error(tmp_path, content):
    (tmp_path / "head.json").write_text(content)
    with pytest.raises(ValueError, match=r"must be a file that LinearHead\.save wrote"):
        LinearHead.load(tmp_path / "head.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": torch.ones(3)}, "'x' must be finite features"),
        ({"x": torch.full((150, 6), torch.nan)}, "'x' must be finite features"),
        ({"target": torch.ones(3, 2)}, "'target' must have one row for each of the 150"),
        ({"row_weight": torch.zeros(150)}, "'row_weight' must be finite, >= 0 and not all 0"),
        ({"row_weight": -torch.ones(150)}, "'row_weight' must be finite, >= 0 and not all 0"),
        ({"row_weight": torch.full((150,), torch.inf)}, "'row_weight' must be finite"),
        ({"row_weight": torch.ones(150, 1)}, r"'row_weight' must be of shape \[150\], got \[150, 1\]"),
        ({"target": torch.full((150, 3), torch.nan)}, "'target' must hold shares"),
        ({"target": torch.ones(150, 3)}, "'target' must hold shares"),
    ],
)
def test_bad_input_is_refused(options, message):
    x, y = table()
    with pytest.raises(ValueError, match=message):
        LinearHead.fit(**{"x": x, "target": one_hot(y), **options})


def test_other_columns_are_refused():
    x, y = table()
    with pytest.raises(ValueError, match=r"\[num_rows, 6\], got \[150, 5\]"):
        LinearHead.fit(x, one_hot(y))(x[:, :5])


def test_evidence_is_out_of_fold_at_labels():
    x, y = table(rows=90)
    mask = torch.arange(90) < 30
    wrong = y.clone()
    wrong[0] = (y[0] + 1) % 3
    one, other = (head_evidence(x, labels, mask, 3) for labels in (y, wrong))
    # What is said of a label does not know it: changing it changes what is said of others.
    moved = (one - other).abs().amax(dim=1)
    assert float(one[0, y[0]]) > 0.3
    assert float(moved[30:].max()) > 1e-3
    assert bool(torch.isfinite(one).all())
    changed = torch.where(mask, y, (y + 1) % 3)
    assert torch.equal(head_evidence(x, changed, mask, 3), one)


def test_where_nothing_can_be_left_out_there_is_no_opinion():
    x, y = table(rows=60)
    mask = torch.zeros(60, dtype=torch.bool)
    mask[[int((y == c).nonzero()[0]) for c in range(3)]] = True
    assert bool(torch.isnan(head_evidence(x, y, mask, 3)).all())
    two = mask.clone()
    two[int((y == 0).nonzero()[1])] = True
    evidence = head_evidence(x, y, two, 3)
    assert bool(torch.isnan(evidence[mask & (y > 0)]).all())
    assert bool(torch.isfinite(evidence[~two]).all())


def test_a_mask_of_numbers_is_an_error():
    x, y = table(rows=60)
    with pytest.raises(ValueError, match=r"'mask' must be bool of shape \[num_nodes\] = \[60\], got torch.int64"):
        head_evidence(x, y, torch.arange(10), 3)
