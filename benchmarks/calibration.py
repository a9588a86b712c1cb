"""How well soft labels are calibrated: the expected calibration error of every rule, on graphs with few labels.

    python benchmarks/calibration.py    # development seeds 100–103, writes benchmarks/results/calibration.csv and .md

All rules see the same scores of the same model. The form and the constants of ``calibrated`` were chosen, among about a
hundred, on the seeds 100 and 101 of all cases but Fashion-MNIST, of CiteSeer and two moons, and on features of hybrid
runs with the same seeds; 102 and 103 were looked at afterwards. "Best temperature" is the best for all nodes alike.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from shared import machine
from shared.cases import Case, Problem, make_problem
from shared.splits import Split
from torch import Tensor
from tqdm import tqdm

from tg_crepe import LGC, ConvergenceWarning, CrepePropagation, GraphWarning
from tg_crepe.inference.expected_error import judge
from tg_crepe.inference.soft_labels import calibrate, fit_sharpness, relative_weights, unlabelled_mean
from tg_crepe.inference.task import LabelTask, Solution
from tg_crepe.models import EnergyModel
from tg_crepe.training import expected_calibration_error

CASES = (
    Case("digits", Split("count", 1), k=10),
    Case("digits", Split("count", 2), k=10),
    Case("digits", Split("count", 5), k=10),
    Case("digits", Split("count", 10), k=10),
    Case("fashion", Split("count", 5)),
    Case("fashion", Split("share", 0.01)),
    Case("fashion", Split("share", 0.1)),
    Case("pneumonia", Split("share", 0.05)),
    Case("breast", Split("share", 0.05)),
    Case("breast", Split("share", 0.2)),
    Case("cora", Split("count", 20)),
)


class _Recorded(EnergyModel):
    """Remembers what a rule of soft labels gets to see."""

    def _solve(self, task: LabelTask) -> Solution:
        solution = super()._solve(task)  # type: ignore[safe-super]
        if solution.judgement is None:
            solution = replace(solution, judgement=judge(task, solution.rate))
        self.task, self.solution = task, solution
        return solution


class RecordedCrepe(_Recorded, CrepePropagation):
    """CREPE that remembers its scores."""


class RecordedLGC(_Recorded, LGC):
    """LGC that remembers its scores."""


MODELS: dict[str, type[_Recorded]] = {"CREPE": RecordedCrepe, "LGC": RecordedLGC}

#: The seeds that the rule was chosen on, and the others.
CHOSEN_ON, NEW = (100, 101), (102, 103)


@dataclass(frozen=True)
class Solved:
    """A problem, and what a model found from the labels of a mask."""

    model: _Recorded
    problem: Problem
    task: LabelTask
    solution: Solution
    node: Tensor  # [num_reached], the node of every row of the task

    @property
    def truth(self) -> Tensor:
        """The true classes of the rows."""
        return self.problem.truth[self.node]


def solve(model: _Recorded, problem: Problem, mask: Tensor) -> Solved:
    """Runs a model, which numbers the nodes that it reaches anew."""
    everyone = torch.arange(problem.y.numel())
    result = model.propagate(problem.y, problem.edge_index, mask, problem.edge_weight, snapshot_nodes=everyone)
    rows = model.task.snapshot_rows
    assert rows is not None
    inside = everyone[result.reached & torch.isin(everyone, problem.edge_index)]
    return Solved(model, problem, model.task, model.solution, torch.empty_like(rows).scatter_(0, rows, inside))


def unit_scores(score: Tensor) -> Tensor:
    """Scores with zero row means at unit spread."""
    centred = score.double() - score.double().mean(dim=1, keepdim=True)
    return centred / centred.square().mean().sqrt()


def by_neighbours(solved: Solved) -> Tensor:
    """A temperature fitted to the neighbours of the labelled nodes."""
    task, score = solved.task, unit_scores(solved.solution.score)
    around, judged = unlabelled_mean(task.graph, score, task.labelled)
    known = (task.sign != 0) & judged.unsqueeze(-1)
    return torch.softmax(fit_sharpness(around, task.sign, known, False) * score, dim=1)


def by_whole_hold_out(solved: Solved) -> Tensor:
    """A temperature fitted to labels that two whole solves do not know; without two labels per class, as neighbours."""
    model, problem, task = solved.model, solved.problem, solved.task
    if int(task.positive_count.min()) < 2:
        return by_neighbours(solved)
    rng, half = np.random.default_rng(0), torch.zeros_like(problem.mask)
    for label in task.classes.tolist():
        half[rng.permutation((problem.mask & (problem.y == label)).nonzero().view(-1).numpy())[::2]] = True
    score = torch.zeros(problem.y.numel(), task.total_classes, dtype=torch.float64)
    for kept in (half, problem.mask & ~half):
        part = solve(model, problem, kept)
        found = torch.zeros_like(score)
        found[part.node.unsqueeze(1), part.task.classes] = unit_scores(part.solution.score)
        score[problem.mask & ~kept] = found[problem.mask & ~kept]
    score = score[solved.node][:, task.classes]
    known = task.labelled.unsqueeze(1).expand_as(task.sign)
    return torch.softmax(fit_sharpness(score, task.sign, known, False) * unit_scores(solved.solution.score), dim=1)


def by_truth(solved: Solved) -> Tensor:
    """The best single temperature for the true labels: nothing that a temperature does is better."""
    free, score, truth = ~solved.task.labelled, unit_scores(solved.solution.score), solved.truth

    def error(sharpness: float) -> float:
        return expected_calibration_error(torch.softmax(sharpness * score[free], dim=1), truth[free]) or 0.0

    return torch.softmax(min(np.geomspace(0.05, 200, 60).tolist(), key=error) * score, dim=1)


RULES: dict[str, Callable[[Solved], Tensor]] = {
    "paper's rule": lambda solved: relative_weights(solved.solution.u.double(), multi_label=False),
    "neighbours": by_neighbours,
    "two whole solves": by_whole_hold_out,
    "`calibrated`": lambda solved: calibrate(solved.task, solved.solution),
    "best temperature": by_truth,
}


def measure(case: Case, name: str, seed: int) -> list[dict[str, object]]:
    """One row per rule."""
    problem = make_problem(case, seed)
    solved = solve(MODELS[name](), problem, problem.mask)
    truth = solved.truth
    free = ~solved.task.labelled & (truth >= 0)
    error = 100 * float((solved.solution.score.argmax(dim=1) != truth)[free].double().mean())
    rows: list[dict[str, object]] = []
    for rule, make in RULES.items():
        prob = make(solved)[free].clamp(0, 1)
        ece = expected_calibration_error(prob, truth[free])
        unsure = 100 * (1 - float(prob.amax(dim=1).mean()))
        rows.append(
            {"case": case.title, "model": name, "seed": seed, "rule": rule, "ece": 100 * (ece or 0.0), "error": error}
            | {"expected_error": unsure}
        )
    return rows


def table(rows: list[dict[str, object]], name: str, seeds: tuple[int, ...]) -> list[str]:
    """Mean calibration errors over some seeds, one line per case."""
    chosen = [row for row in rows if row["model"] == name and row["seed"] in seeds]
    lines = [f"| {name} | error | expected | {' | '.join(RULES)} |", "|---" * (3 + len(RULES)) + "|"]
    means: dict[str, list[float]] = {rule: [] for rule in RULES}
    for case in dict.fromkeys(str(row["case"]) for row in chosen):
        here = [row for row in chosen if row["case"] == case]
        for rule in RULES:
            means[rule].append(statistics.mean(float(str(row["ece"])) for row in here if row["rule"] == rule))
        ours = [row for row in here if row["rule"] == "`calibrated`"]
        error, expected = (statistics.mean(float(str(row[key])) for row in ours) for key in ("error", "expected_error"))
        lines.append(
            f"| {case} | {error:.1f} | {expected:.1f} | {' | '.join(f'{v[-1]:.1f}' for v in means.values())} |"
        )
    lines.append(f"| **mean** | | | {' | '.join(f'{statistics.mean(v):.2f}' for v in means.values() if v)} |")
    return lines


def report(rows: list[dict[str, object]]) -> str:
    """The page of the results."""
    lines = [
        machine.describe(),
        "",
        "Expected calibration error (15 bins) on unlabelled nodes, in per cent, mean over two development splits; the "
        "error of the labels in per cent, and what `calibrated` expects it to be. All rules see the same scores.",
    ]
    for seeds, what in (
        (CHOSEN_ON, "the rule was chosen on these, without Fashion-MNIST"),
        (NEW, "looked at when the rule was fixed"),
    ):
        lines += ["", f"Seeds {seeds[0]} and {seeds[1]} ({what}):"]
        for name in MODELS:
            lines += ["", *table(rows, name, seeds)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=machine.RESULTS, help="folder of the results")
    options = parser.parse_args()
    warnings.simplefilter("ignore", GraphWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    cells = [(case, name, seed) for case in CASES for seed in (*CHOSEN_ON, *NEW) for name in MODELS]
    rows = [row for cell in tqdm(cells, disable=None) for row in measure(*cell)]
    machine.write_csv(rows, options.out / "calibration.csv")
    machine.write_text(report(rows), options.out / "calibration.md")
    print(report(rows))


if __name__ == "__main__":
    main()
