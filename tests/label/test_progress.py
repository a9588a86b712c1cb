import numpy as np
import pytest

from tg_crepe.inference.task import ExpectedError
from tg_crepe.label.progress import expected_error, ten_more
from tg_crepe.label.solve import Solved
from tg_crepe.label.store import Answer, ProgressPoint


def solved_with(doubt, own=(0.1, 0.02, 0.35), labels=40):
    """A model of two classes that takes all items for the first, with these doubts."""
    prob = np.stack([1 - doubt, doubt], axis=1).astype(np.float32)
    count = len(doubt)
    given = np.zeros(count, dtype=bool)
    return Solved(1, labels, (1, 2), np.full(count, 1), prob, 1 - doubt, given, ExpectedError(*own))


def asked_of(doubt, wrong, labels=40):
    return [
        Answer(i, "class", 2 if bad else 1, 1, 1 - d, labels)
        for i, (d, bad) in enumerate(zip(doubt, wrong, strict=True))
    ]


def wrong_share(doubt, shift=0.0):
    """The share of wrong guesses among items of a doubt where all log-odds are off by one number."""
    return 1 / (1 + (1 - doubt) / doubt * np.exp(-shift))


def test_without_tests_it_is_the_doubt_of_the_model_and_about_its_own_interval():
    doubt = np.full(1000, 0.1)
    found = expected_error(solved_with(doubt), [])
    assert found.value == pytest.approx(0.13, abs=0.04)  # the mean of a skewed distribution about 0.1
    assert 0 < found.low < 0.02
    assert 0.35 < found.high < 0.5


def test_tests_that_go_as_the_model_says_make_the_interval_narrower_but_only_so_much():
    """However many there are: questions may be harder or easier than the rest."""
    generator = np.random.default_rng(0)
    doubt = generator.uniform(0.02, 0.49, 2000)
    model = solved_with(doubt, own=(float(doubt.mean()), 0.1, 0.5))
    before = expected_error(model, [])
    asked = doubt[:300]
    after = expected_error(model, asked_of(asked, generator.random(300) < wrong_share(asked)))
    many = np.tile(asked, 10)
    most = expected_error(model, asked_of(many, generator.random(3000) < wrong_share(many)))
    assert 0.5 < (after.high - after.low) / (before.high - before.low) < 0.9
    assert (most.high - most.low) / (before.high - before.low) > 0.5
    assert after.value == pytest.approx(doubt.mean(), abs=0.04)


def test_doubtful_questions_alone_do_not_make_a_good_model_look_bad():
    """Asked items are wrong four times as often as the others; the estimate is about the others."""
    generator = np.random.default_rng(1)
    doubt = np.where(np.arange(2000) < 200, 0.4, 0.04)
    model = solved_with(doubt, own=(0.076, 0.02, 0.3))
    asked = np.full(60, 0.4)
    found = expected_error(model, asked_of(asked, generator.random(60) < wrong_share(asked)))
    assert found.value == pytest.approx(0.076, abs=0.03)


@pytest.mark.parametrize("harder", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("shift", [0.0, 1.0, -0.8])
def test_the_interval_holds_the_truth_where_the_model_is_off_and_questions_are_harder_or_easier(shift, harder):
    held = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        doubt = generator.beta(0.6, 3.0, 800)
        odds = np.log(np.clip(doubt, 1e-3, 1) / (1 - np.clip(doubt, 0, 0.999))) + shift
        wrong = generator.random(800) < 1 / (1 + np.exp(-odds))
        asked = np.clip(doubt[np.argsort(-doubt)[generator.choice(300, 50, replace=False)]], 1e-3, 1)
        answers = asked_of(asked, generator.random(50) < wrong_share(asked, shift + harder))
        found = expected_error(solved_with(doubt, own=(0.15, 0.03, 0.5)), answers)
        held += found.low <= wrong.mean() <= found.high
    assert held >= 51


def test_old_tests_count_less_than_new_ones():
    doubt = np.full(500, 0.2)
    model = solved_with(doubt, labels=100)
    old, new = asked_of(np.full(20, 0.2), np.ones(20, bool), 10), asked_of(np.full(20, 0.2), np.ones(20, bool), 99)
    assert expected_error(model, []).value < expected_error(model, old).value < expected_error(model, new).value


def test_what_ten_more_answers_bring_follows_the_curve():
    falling = [ProgressPoint(n, n, 0.5, 1 / n, 0.0, 1.0) for n in range(10, 60, 5)]
    assert ten_more(falling) == pytest.approx(1 / 65, rel=1e-6)
    flat = [ProgressPoint(n, n, 0.5, 0.1, 0.0, 1.0) for n in range(10, 60, 5)]
    assert ten_more(flat) == pytest.approx(0.1)
    assert ten_more(falling[:2]) is None
    assert ten_more([]) is None
