"""What ``benchmarks/contest graphs`` writes: errors of every method, and how both together compare with each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy.stats import ttest_rel, wilcoxon
from shared.picture import write_picture
from shared.planetoid_job import DRAWS, GRAPHS, METHODS
from shared.table import markdown, opening

from tg_crepe.viz import PALETTE

Row = dict[str, Any]

#: The row that the others are compared with.
OURS = "GCN + CREPE"


class Results:
    """Errors by graph, draw, method and seed.

    Args:
        rows (list): The rows of the cells.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self.seeds = sorted({row["seed"] for row in self.rows})
        self.draws = [draw for draw in DRAWS if any(row["draw"] == draw for row in self.rows)]
        self.graphs = [graph for graph in GRAPHS if any(row["graph"] == graph for row in self.rows)]
        self.methods = [method for method in METHODS if any(row["method"] == method for row in self.rows)]

    def errors(self, graph: str, draw: str, method: str) -> dict[int, float]:
        """The error of every seed; empty where there is none."""
        place = (graph, draw, method)
        return {row["seed"]: row["error"] for row in self.rows if (row["graph"], row["draw"], row["method"]) == place}

    def pairs(self, graph: str, draw: str, method: str) -> tuple[list[float], list[float]]:
        """The errors of both together and of another method, on the seeds that have both."""
        ours, theirs = self.errors(graph, draw, OURS), self.errors(graph, draw, method)
        common = [seed for seed in self.seeds if seed in ours and seed in theirs]
        return [ours[seed] for seed in common], [theirs[seed] for seed in common]


def error_table(results: Results, draw: str) -> list[str]:
    """Means over seeds, with their standard deviation."""
    body = []
    for method in results.methods:
        found = [list(results.errors(graph, draw, method).values()) for graph in results.graphs]
        cells = [
            f"{mean(own):.2f} ± {stdev(own) if len(own) > 1 else 0:.2f} ({len(own)})" if own else "–" for own in found
        ]
        body.append([method, *cells])
    return markdown([f"{draw}, error in %", *results.graphs], body)


def t_test(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """p of a paired t-test; NaN where there are fewer than two draws."""
    return float(ttest_rel(ours, theirs).pvalue) if len(ours) > 1 else math.nan


def compare(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The mean difference, on how many draws ours is lower, and two paired tests."""
    if not ours:
        return "–"
    difference = mean(one - other for one, other in zip(ours, theirs, strict=True))
    lower = sum(one < other for one, other in zip(ours, theirs, strict=True))
    text = f"{difference:+.2f}".replace("-", "−")
    if len(ours) < 2 or list(ours) == list(theirs):
        return f"{text}, lower in {lower} of {len(ours)}"
    chance = f"p {t_test(ours, theirs):.1e} (t), {wilcoxon(ours, theirs).pvalue:.1e} (Wilcoxon)"
    return f"{text}, lower in {lower} of {len(ours)}, {chance}"


def comparison_table(results: Results, draw: str) -> list[str]:
    """How both together compare with every other method on the same draws."""
    body = [
        [method, *(compare(*results.pairs(graph, draw, method)) for graph in results.graphs)]
        for method in results.methods
        if method != OURS
    ]
    return markdown([f"{OURS} minus …, in points", *results.graphs], body)


def draw_tables(results: Results, draw: str) -> list[str]:
    """Errors of a draw, and how both together compare with the others."""
    compared = comparison_table(results, draw) if OURS in results.methods and len(results.methods) > 1 else []
    return [*error_table(results, draw), "", *compared, ""]


def summary(results: Results, failed: int = 0) -> str:
    """The whole report."""
    lines = [
        *opening(failed),
        f"Seeds {results.seeds[0]} to {results.seeds[-1]}. Labels drawn at random are judged on all other nodes, the "
        "public split on its test nodes (a seed is that of the networks there). Networks have the settings of PyG's "
        "examples, without validation labels: the last epoch counts. A node that no label reaches counts as an error. "
        "In brackets: the number of draws.",
        "",
    ]
    lines += [line for draw in results.draws for line in draw_tables(results, draw)]
    return "\n".join(lines).rstrip() + "\n"


def draw_bars(results: Results, path: Path) -> None:
    """A panel per graph: the mean error of every method on the first kind of draw, and every seed as a dot."""
    from matplotlib.figure import Figure

    draw = results.draws[0]
    figure = Figure(
        figsize=(max(3.4 * len(results.graphs), 6.0), 0.4 * len(results.methods) + 1.6), layout="constrained"
    )
    for axes, graph in zip(figure.subplots(1, len(results.graphs), squeeze=False)[0], results.graphs, strict=True):
        for place, method in enumerate(results.methods):
            found = list(results.errors(graph, draw, method).values())
            if found:
                axes.barh(place, mean(found), color=PALETTE[0 if method == OURS else 1], alpha=0.6)
                axes.plot(found, [place] * len(found), ".", color="black", markersize=3)
        axes.set_yticks(range(len(results.methods)), results.methods if graph == results.graphs[0] else [])
        axes.invert_yaxis()
        axes.set_title(graph, fontsize=11)
        axes.grid(alpha=0.3, axis="x")
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"Error in %, {draw}: mean (bar) and every draw (dot)", fontsize=10)
    write_picture(figure, path)
