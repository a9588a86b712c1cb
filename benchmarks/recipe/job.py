"""What a worker of ``recipe`` does: it makes a problem, runs a variant on it and counts errors."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace

import torch
from recipe.cases import HARMLESS, Case, Problem, make_problem
from recipe.stages import GROWTH, STEPS, TIME, AlongTheFlow
from recipe.variants import VARIANTS
from shared.fingerprint import fingerprint
from shared.grid import Cell, Job, Value
from shared.splits import Split
from torch import Tensor

from tg_crepe import ConvergenceWarning, GraphWarning


def make_cell(case: Case, variant: str, seed: int, expected: float) -> Cell:
    """The cell of a run."""
    point: dict[str, Value] = {
        "data": case.data,
        "split": case.split.kind,
        "amount": case.split.amount,
        "k": case.k,
        "noise": case.noise,
        "metric": case.metric,
        "twist": case.twist,
        "variant": variant,
        "seed": seed,
    }
    protocol = fingerprint("recipe.cases", "shared.features", "shared.splits") + fingerprint("tg_crepe.graph.knn")
    return Cell(point, f"{VARIANTS[variant].settings} {protocol}", expected)


def read_case(cell: Cell) -> Case:
    """The case of a cell."""
    point = cell.point
    split = Split(str(point["split"]), float(point["amount"]))
    return Case(
        str(point["data"]), split, int(point["k"]), float(point["noise"]), str(point["metric"]), str(point["twist"])
    )


def make_job(threads: int) -> Job:
    """The job of a worker that may use ``threads`` threads."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore", GraphWarning)  # a node that no label reaches counts as an error
    warnings.simplefilter("ignore", ConvergenceWarning)  # the status is a column of the table
    return run_cell


def run_cell(cell: Cell) -> list[dict[str, Value]]:
    """Runs a variant; one row, or one for every step of the flow that was asked for."""
    case, seed, variant = read_case(cell), int(cell.point["seed"]), VARIANTS[str(cell.point["variant"])]
    problem = make_problem(case, seed)
    start, start_cpu = time.perf_counter(), time.process_time()
    model, result = variant.predict(problem)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    common: dict[str, Value] = {"status": result.status, "seconds": seconds, "cpu_seconds": cpu_seconds}
    if isinstance(model, AlongTheFlow):
        return [
            {"step": step, "time": TIME * GROWTH ** (step - STEPS) if step else 0.0, "ratios": ratio}
            | score(found, problem)
            | common
            for step, (ratio, found) in enumerate(zip(model.ratios, model.labels, strict=True))
        ]
    changed: Value = ""
    if case.twist in HARMLESS:
        plain = make_problem(replace(case, twist=""), seed)
        before = variant.predict(plain)[1].label
        changed = int((before != result.label[: before.numel()]).sum())
    return [{"step": "", "time": "", "ratios": ""} | score(result.label, problem) | common | {"changed": changed}]


def score(label: Tensor, problem: Problem) -> dict[str, Value]:
    """Errors in per cent: of all nodes that count, their mean over classes, and that of the small class."""
    wrong, truth = (label != problem.truth)[problem.tested].double(), problem.truth[problem.tested]
    by_class = [100 * float(wrong[truth == c].mean()) for c in truth.unique().tolist()]
    small: Value = 100 * float(wrong[truth == problem.small].mean()) if problem.small >= 0 else ""
    return {
        "error": 100 * float(wrong.mean()),
        "class_error": sum(by_class) / len(by_class),
        "small_error": small,
        "changed": "",
    }
