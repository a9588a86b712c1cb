import numpy as np
import pytest
import torch
from helpers import clusters
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from tg_crepe import LGC, ConvergenceWarning, NearestNeighbor
from tg_crepe.inference.match_volumes import match_volumes, volume_offsets
from tg_crepe.inference.task import LabelTask


def make_task(num_classes: int = 3, num_labels: int = 6, multi_label: bool = False) -> LabelTask:
    """150 nodes, of which the first few are labelled, class by class in turn."""
    graph, _ = clusters(0)
    own = torch.arange(num_labels).unsqueeze(1) % num_classes == torch.arange(num_classes)
    sign = torch.zeros(150, num_classes, dtype=torch.float64)
    sign[:num_labels] = own.double() * 2 - 1
    return LabelTask(graph, sign, multi_label, torch.arange(num_classes), num_classes)


def make_scores(seed: int, num_classes: int = 3, spread: float = 1.0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((150, num_classes)) * np.exp(spread * rng.standard_normal((150, 1))))


def numbers(score: torch.Tensor, task: LabelTask) -> list[int]:
    """How many nodes every class has, labelled ones with their label."""
    label = torch.where(task.labelled, task.y, score.argmax(dim=1))
    return torch.bincount(label, minlength=task.num_classes).tolist()


@given(seed=st.integers(0, 10_000), weights=st.lists(st.integers(1, 20), min_size=2, max_size=6))
@example(seed=2281, weights=[9, 9, 14, 1])  # more than a thousand rounds
def test_every_class_gets_its_number(seed, weights):
    task = make_task(len(weights), num_labels=0)
    volume = torch.tensor(weights).double() / sum(weights)
    score, missed = match_volumes(make_scores(seed, len(weights)), task, volume)
    assert missed == 0
    np.testing.assert_array_less(np.abs(numbers(score, task) - 150 * volume.numpy()), 1)
    assert sum(numbers(score, task)) == 150


@given(seed=st.integers(0, 10_000))
def test_no_other_assignment_with_these_numbers_has_a_larger_total_score(seed):
    task, original = make_task(num_labels=0), make_scores(seed)
    score, missed = match_volumes(original, task, torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64))
    assert missed == 0
    wanted = np.repeat(np.arange(3), [30, 75, 45])
    rows, columns = linear_sum_assignment(-original.numpy()[:, wanted])
    assert torch.equal(score.argmax(dim=1)[rows], torch.from_numpy(wanted[columns]))


def test_scores_are_shifted_by_one_number_per_class():
    original = make_scores(0)
    score, _ = match_volumes(original, make_task(), torch.full((3,), 1 / 3, dtype=torch.float64))
    shift = score - original
    torch.testing.assert_close(shift, shift[:1].expand_as(shift))


def test_labelled_nodes_count_with_their_label():
    task = make_task(num_labels=90)  # thirty labels per class
    score, missed = match_volumes(make_scores(1), task, torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64))
    assert missed == 0
    assert numbers(score, task) == [30, 45, 75]  # all of the first class are labelled already


def test_a_class_with_more_labels_than_its_volume_gets_no_further_node():
    task = make_task(num_labels=90)
    score, _ = match_volumes(make_scores(1), task, torch.tensor([0.1, 0.4, 0.5], dtype=torch.float64))
    found = numbers(score, task)
    assert found[0] == 30
    assert abs(found[1] / found[2] - 0.8) < 0.03  # the others share the rest


@given(seed=st.integers(0, 10_000), order=st.permutations(range(4)))
def test_names_of_classes_do_not_matter(seed, order):
    task, original = make_task(4, num_labels=0), make_scores(seed, 4)
    volume = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    one, _ = match_volumes(original, task, volume)
    other, _ = match_volumes(original[:, order], task, volume[list(order)])
    assert torch.equal(one.argmax(dim=1), torch.tensor(order)[other.argmax(dim=1)])


@given(seed=st.integers(0, 10_000), exponent=st.integers(-9, 9))
def test_scale_and_shift_of_the_scores_do_not_matter(seed, exponent):
    task, original = make_task(num_labels=0), make_scores(seed)
    volume = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    one, _ = match_volumes(original, task, volume)
    other, _ = match_volumes((original + torch.tensor([0.0, 3.0, -5.0])) * 10.0**exponent, task, volume)
    assert torch.equal(one.argmax(dim=1), other.argmax(dim=1))


def test_scores_over_many_orders_of_magnitude():
    score, missed = match_volumes(make_scores(0, 5, spread=6.0), make_task(5, num_labels=0), torch.full((5,), 0.2))
    assert missed == 0
    assert numbers(score, make_task(5, num_labels=0)) == [30] * 5


def test_ties_are_reported_and_end():
    task = make_task(num_labels=0)
    tied = torch.zeros(150, 3)
    tied[:100, 0] = 1
    score, missed = match_volumes(tied, task, torch.full((3,), 1 / 3, dtype=torch.float64))
    assert bool(torch.isfinite(score).all())
    assert missed == max(abs(n - 50) for n in numbers(score, task)) > 0


@given(
    seed=st.integers(0, 10_000), levels=st.integers(1, 6), weights=st.lists(st.integers(0, 9), min_size=3, max_size=3)
)
def test_what_is_missed_with_ties_is_counted(seed, levels, weights):
    task, weights = make_task(num_labels=0), [*weights[:2], weights[2] + 1]
    tied = torch.from_numpy(np.random.default_rng(seed).integers(0, levels, (150, 3))).double()
    volume = torch.tensor(weights).double() / sum(weights)
    score, missed = match_volumes(tied, task, volume)
    assert bool(torch.isfinite(score).all())
    assert abs(missed - np.abs(numbers(score, task) - 150 * volume.numpy()).max()) < 1  # numbers are whole


@given(seed=st.integers(0, 10_000), empty=st.sets(st.integers(0, 5), min_size=1, max_size=5))
def test_classes_without_volume_get_no_node(seed, empty):
    task, volume = make_task(6, num_labels=0), torch.ones(6, dtype=torch.float64)
    volume[list(empty)] = 0  # of five, one class has all nodes
    score, missed = match_volumes(make_scores(seed, 6), task, volume / volume.sum())
    assert missed == 0
    assert {label for label, count in enumerate(numbers(score, task)) if count == 0} == empty


def test_columns_of_very_different_size():
    task, scale = make_task(num_labels=0), torch.tensor([1e6, 1.0, 1e-12], dtype=torch.float64)
    score, missed = match_volumes(make_scores(0) * scale, task, torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64))
    assert missed == 0
    assert numbers(score, task) == [75, 30, 45]


@pytest.mark.parametrize("num_classes", [75, 150])
def test_as_many_classes_as_there_are_nodes(num_classes):
    task, original = make_task(num_classes, num_labels=0), make_scores(0, num_classes)
    score, missed = match_volumes(original, task, torch.full((num_classes,), 1 / num_classes, dtype=torch.float64))
    assert missed == 0
    assert numbers(score, task) == [150 // num_classes] * num_classes
    places = np.repeat(np.arange(num_classes), 150 // num_classes)
    rows, columns = linear_sum_assignment(-original.numpy()[:, places])
    assert torch.equal(score.argmax(dim=1)[rows], torch.from_numpy(places[columns]))


def test_nothing_to_decide():
    task, original = make_task(num_labels=150), make_scores(0)
    score, missed = match_volumes(original, task, torch.full((3,), 1 / 3, dtype=torch.float64))
    assert missed == 0
    assert torch.equal(score, original)


def test_every_finding_has_a_threshold_of_its_own():
    task = make_task(num_labels=12, multi_label=True)  # four known positives and eight known negatives each
    volume = torch.tensor([0.1, 0.5, 0.01], dtype=torch.float64)
    original = make_scores(2)
    score, missed = match_volumes(original, task, volume)
    assert missed == 0
    assert (score[12:] > 0).sum(dim=0).tolist() == [11, 71, 0]  # with the known positives 15, 75, and 4 already
    assert torch.equal(score.argsort(dim=0), original.argsort(dim=0))


def test_a_finding_that_is_known_everywhere():
    task = make_task(num_labels=150, multi_label=True)
    score, missed = match_volumes(make_scores(2), task, torch.full((3,), 0.5, dtype=torch.float64))
    assert missed == 0
    assert torch.equal(score, make_scores(2))


def labelled_data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    graph, y = clusters(0)
    mask = torch.zeros(150, dtype=torch.bool)
    for c in range(3):
        mask[(y == c).nonzero().view(-1)[: 5 * (c + 1)]] = True
    return y, graph.adjacency, mask


@pytest.mark.parametrize(
    ("volume", "expected"),
    [("uniform", [50, 50, 50]), ("labels", [33, 50, 67]), (torch.tensor([1, 1, 3]), [30, 30, 90])],
    ids=["uniform", "labels", "given"],
)
def test_models_keep_to_the_volume(volume, expected):
    y, graph, mask = labelled_data()
    result = LGC(bind_volume=volume).propagate(y, graph, mask)
    found = torch.bincount(result.label).tolist()
    assert all(abs(one - other) <= 1 for one, other in zip(found, expected, strict=True))
    assert torch.equal(result.prob.argmax(dim=1), result.label)


def test_a_volume_that_ties_forbid_is_warned_of():
    star = torch.stack([torch.zeros(8, dtype=torch.long), torch.arange(1, 9)])
    y = torch.full((9,), -1)
    y[1], y[2] = 0, 1  # all other leaves are alike
    with pytest.warns(ConvergenceWarning, match=r"a class misses its volume by [1-9] of 9 nodes"):
        NearestNeighbor(bind_volume="uniform").propagate(y, torch.cat([star, star.flip(0)], dim=1))


def test_bad_volumes_are_named_before_any_work(monkeypatch):
    with pytest.raises(ValueError, match="'bind_volume' must be one of 'labels', 'uniform', got 'equal'"):
        LGC(bind_volume="equal")
    with pytest.raises(ValueError, match="'bind_volume' must hold one number > 0 per class"):
        LGC(bind_volume=torch.tensor([0.0, 1.0]))
    monkeypatch.setattr(LGC, "_solve", lambda *_: pytest.fail("work was done on bad input"))
    with pytest.raises(ValueError, match="'bind_volume' must hold one number for each of the 3 classes, got 2"):
        LGC(bind_volume=torch.ones(2)).propagate(*labelled_data())


@pytest.mark.parametrize("seed", range(5))
def test_where_the_search_for_the_shifts_begins_changes_no_label(seed):
    task, generator = make_task(), torch.Generator().manual_seed(seed)
    score, volume = make_scores(seed), torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    expected, missed = volume_offsets(score, task, volume)
    for size in (1e-3, 1.0, 30.0):
        start = size * torch.randn(3, generator=generator, dtype=torch.float64)
        found, off = volume_offsets(score, task, volume, start)
        assert off == missed
        assert torch.equal((score + found).argmax(dim=1), (score + expected).argmax(dim=1))
