import torch
from helpers import moons

from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models.crepe.recipe import Recipe
from tg_crepe.models.crepe.refine import _balanced_cut, best_restart
from tg_crepe.models.crepe.start import Start
from tg_crepe.models.crepe.volumes import VolumePosterior
from tg_crepe.solvers.trace import Trace


def choose(y: torch.Tensor, count: int) -> torch.Tensor:
    """The first nodes of every class."""
    hot = torch.nn.functional.one_hot(y)
    return ((hot.cumsum(dim=0) <= count) & (hot == 1)).any(dim=1)


def problem():
    graph, y = moons(3, num_nodes=200)
    mask = choose(y, 1)
    sign = torch.where(mask.unsqueeze(1), 2.0 * torch.nn.functional.one_hot(y, 2) - 1, 0.0).to(graph.edge_weight)
    return LabelTask(graph, sign, False, torch.arange(2), 2), y


def first_start(task: LabelTask, y: torch.Tensor) -> Start:
    u = torch.stack([y - 0.5, 0.5 - y], dim=1).to(task.sign)
    volume = VolumePosterior.given(torch.tensor([0.5, 0.5], dtype=torch.float64))
    return Start(u, torch.ones(()), task.graph, volume)


def answer(label: torch.Tensor) -> Solution:
    score = torch.nn.functional.one_hot(label, 2).double()
    return Solution(score, score, Trace(), "converged")


def test_balanced_cut_by_hand():
    task, y = problem()
    first, second = task.graph.edge_index
    cut = task.graph.edge_weight.double()[y[first] != y[second]].sum()
    volume = min(float(task.graph.degree.double()[y == c].sum()) for c in (0, 1))
    torch.testing.assert_close(_balanced_cut(answer(y), task), float(cut) / volume**2)
    corner = torch.where(task.labelled, y, 0)  # a class that is its label alone
    assert _balanced_cut(answer(corner), task) > 100 * _balanced_cut(answer(y), task)


def test_starts_lean_to_the_labels_and_the_lowest_cut_wins():
    task, y = problem()
    starts, wanted = [], answer(y)

    def run(start, time_steps=None, inner_iterations=None):
        starts.append(start.u)
        return wanted if len(starts) == 7 else answer(torch.where(task.labelled, y, 0))

    default = answer(torch.where(task.labelled, y, 1))
    assert best_restart(task, default, run, first_start(task, y), 0.01, Recipe()) is wanted
    assert len(starts) == 2 + 9  # longer, farther, three eigenvectors, six sums and differences
    for u in starts[2:]:
        lean = (u * task.sign / task.graph.degree.unsqueeze(1)).sum()
        assert float(lean) >= 0


def test_a_tie_keeps_the_first_run():
    task, y = problem()
    default = answer(y)
    assert best_restart(task, default, lambda *_: answer(y), first_start(task, y), 0.01, Recipe()) is default
