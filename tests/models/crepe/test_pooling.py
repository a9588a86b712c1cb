import numpy as np
import pytest
import torch
from helpers import cluster_task

from tg_crepe.inference.held_out import deal_labels
from tg_crepe.inference.task import Solution
from tg_crepe.inference.volumes import found_volume, normalise_masses
from tg_crepe.models.crepe.pooling import pool_opinions
from tg_crepe.models.crepe.start import Start
from tg_crepe.models.crepe.volumes import VolumePosterior
from tg_crepe.models.wnll import solve_wnll
from tg_crepe.solvers import Trace
from tg_crepe.solvers.resolvent import resolvent

EQUAL = torch.full((3,), 1 / 3, dtype=torch.float64)


def first_start(task):
    x = resolvent(task.graph, task.sources, 0.95, 1e-10).x
    support = normalise_masses(x, task, task.graph, EQUAL)
    return Start(support, support.norm(), task.graph, VolumePosterior.given(EQUAL), support=support)


def guesses(label, noise=0.1):
    """Scores that say a label, with some noise."""
    generator = torch.Generator().manual_seed(0)
    one_hot = torch.nn.functional.one_hot(label, 3).double()
    return one_hot + noise * torch.rand(one_hot.shape, generator=generator, dtype=torch.float64)


def pool(task, score, part=None, **options):
    solution = Solution(score, score, Trace(), "converged")
    return pool_opinions(task, solution, first_start(task), score, part, lambda rest: score, 30.0, **options)


@pytest.mark.parametrize("shift", [0, 1])
def test_without_labels_to_leave_out_the_flow_has_the_word_and_doubts_as_much_as_is_known(shift):
    task, y = cluster_task((1, 1, 1))
    score = guesses(y.roll(shift))
    found = pool(task, score)
    assert torch.equal(found.score.argmax(dim=1), score.argmax(dim=1))
    free = ~task.labelled
    near = solve_wnll(task, 1e-12).score.argmax(dim=1)
    own = 1 - first_start(task).support[free].amax(dim=1).mean()
    differing = (near != score.argmax(dim=1))[free].double().mean()
    expected = float(own + differing) / 2
    said = found.judgement.expected.value
    # Where the flow contradicts the diffusion, the shares that changed places leave a little more doubt.
    assert 0 < said - expected < (0.05 if shift == 0 else 0.2)
    doubt = 1 - torch.softmax(found.score, dim=1)[free].amax(dim=1).mean()
    assert float(doubt) == pytest.approx(said)


def test_labels_left_out_trust_the_opinion_that_knows_them():
    task, y = cluster_task((20, 20, 20))
    part, free = deal_labels(task, 0.05), ~task.labelled
    for score, wrong in ((guesses(y), 0.0), (guesses((y + 1) % 3), 1.0)):
        # The flow is right everywhere or nowhere; what is near is right.
        found = pool(task, score, part)
        assert float((found.score.argmax(dim=1) == y)[free].double().mean()) > 0.9
        assert found.judgement.expected.value < 0.2
        assert float((score.argmax(dim=1) != y)[free].double().mean()) == wrong


def test_expected_error_of_labels_that_are_noise_is_near_chance():
    task, y = cluster_task((20, 20, 20))
    noise = y[torch.randperm(y.numel(), generator=torch.Generator().manual_seed(0))]
    sign = torch.where(task.labelled.unsqueeze(1), 2.0 * torch.nn.functional.one_hot(noise, 3) - 1, 0.0).double()
    task = type(task)(task.graph, sign, False, task.classes, 3)
    found = pool(task, guesses(y), deal_labels(task, 0.05))
    assert 0.5 < found.judgement.expected.value <= 2 / 3 + 1e-9


def test_volumes_that_bind_are_met():
    task, y = cluster_task((5, 5, 5))
    volume = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    found = pool(task, guesses(y), deal_labels(task, 0.05), bound=volume)
    np.testing.assert_allclose(found_volume(found.score, task), volume, atol=1.5 / y.numel())


def test_a_label_is_no_opinion_of_itself_where_it_may_be_outvoted():
    task, y = cluster_task((10, 10, 10))
    wrong = task.labelled.nonzero()[0]
    sign = task.sign.clone()
    sign[wrong] = 2.0 * torch.nn.functional.one_hot((y[wrong] + 1) % 3, 3).double() - 1
    task = type(task)(task.graph, sign, False, task.classes, 3)
    found = pool(task, guesses(y), deal_labels(task, 0.05), outvote=True)
    assert int(found.score[wrong].argmax()) == int(y[wrong])
