from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tg_crepe.report.content import RunContent
from tg_crepe.report.svg import inline_svg
from tg_crepe.viz import (
    PALETTE,
    plot_certainty,
    plot_class_balance,
    plot_confusion,
    plot_epochs,
    plot_reliability,
)


@dataclass(frozen=True)
class Chart:
    r"""A figure of the page, with the same in words and numbers.

    Args:
        title (str): The heading.
        svg (str): The drawing.
        words (str): What it says, for those who do not see it, and for those who do.
        header (list): The heads of the columns of its table.
        rows (list): The rows of its table.
    """

    title: str
    svg: str
    words: str
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def make_charts(content: RunContent) -> list[Chart]:
    """The figures for which the run has the numbers, in the order of the page."""
    made: list[Chart | None] = []
    if content.result is not None:
        made += [_certainty(content), _reliability(content), _confusion(content), _balance(content)]
    made += [_epochs(content), _course(content)]
    return [chart for chart in made if chart is not None]


def _course(content: RunContent) -> Chart | None:
    """What the flow makes small against the step: the ratios, summed over the classes. Energies alone may grow.

    From the first step on at which the given labels hold: the start need not hold them, and is no step down from.
    """
    trace = content.trace
    if not {"step", "sum_of_ratios"} <= set(trace) or not len(trace["step"]):
        return None
    bound = trace.get("margin_violation", np.zeros_like(trace["step"])) == 0
    first = int(bound.argmax()) if bound.any() else 0
    step, ratio = trace["step"][first:], trace["sum_of_ratios"][first:]
    words = (
        f"What the method makes small is {ratio[0]:.4g} at step {step[0]:g} and {ratio[-1]:.4g} at step {step[-1]:g}. "
    )
    words += "It fell" if ratio[-1] <= ratio[0] else "It did not fall"
    words += "; how many labels are right it does not say."

    def draw(ax: Any) -> None:
        ax.plot(step, ratio, color=PALETTE[0], marker="o")
        ax.set_xlabel("step")
        ax.set_ylabel("sum of ratios $J/H$")
        ax.grid(alpha=0.3)

    rows = [[f"{s:g}", f"{r:.4g}"] for s, r in zip(step, ratio, strict=True)]
    return Chart("Course of the method", inline_svg("course", draw), words, ["step", "sum of ratios J/H"], rows)


def _epochs(content: RunContent) -> Chart | None:
    """Errors of the network and of the pseudo-labels per epoch."""
    rows = [row for row in content.metrics if row.get("error") is not None or row.get("pseudo_error") is not None]
    if not rows:
        return None
    last = rows[-1]
    parts = [
        f"{title} {100 * float(value):.2f} %"
        for name, title in (("error", "network on test images"), ("pseudo_error", "pseudo-labels"))
        if (value := last.get(name)) is not None
    ]
    table = [[str(row.get("epoch")), _percent(row.get("error")), _percent(row.get("pseudo_error"))] for row in rows]
    return Chart(
        "Error per epoch",
        inline_svg("epochs", lambda ax: plot_epochs(rows, ax)),
        f"Error in epoch {last.get('epoch')}: {'; '.join(parts)}.",
        ["epoch", "network", "pseudo-labels"],
        table,
    )


def _certainty(content: RunContent) -> Chart | None:
    """How certain the pseudo-labels are, the right and the wrong ones apart."""
    assert content.result is not None
    chosen = content.judged if content.has_truth else content.pseudo
    if not chosen.any():
        return None
    value = content.result.certainty[chosen]
    right = content.correct[chosen] if content.has_truth else None
    if right is None:
        words = f"Certainty of {len(value):,} pseudo-labels; the mean is {value.mean():.2f}. "
        words += "It is how sure the method is, not a share right."
        groups = {"pseudo-labels": value}
    else:
        groups = {"right": value[right], "wrong": value[~right]}
        means = [f"{name}: {len(part):,}, mean {part.mean():.2f}" for name, part in groups.items() if len(part)]
        words = f"Certainty of the pseudo-labels that are {'; '.join(means)}."
    edges = np.linspace(0, 1, 11)
    counts = [np.histogram(np.clip(part, 0, 1), edges)[0] for part in groups.values()]
    rows = [
        [f"{edges[place]:.1f} to {edges[place + 1]:.1f}", *(f"{count[place]:,}" for count in counts)]
        for place in range(10)
    ]
    svg = inline_svg("certainty", lambda ax: plot_certainty(value, right, ax))
    return Chart("Certainty", svg, words, ["certainty", *groups], rows)


def _reliability(content: RunContent) -> Chart | None:
    """Whether the stated probabilities can be taken at their word."""
    result = content.result
    if result is None or result.truth is None or not content.has_truth:
        return None
    from tg_crepe.training.metrics import reliability_curve

    truth, prob = torch.from_numpy(result.truth).long(), torch.from_numpy(result.prob).double().clamp(0, 1)
    node = np.flatnonzero(content.judged)
    curve = reliability_curve(prob[node], truth[node])
    count = curve.count.double()
    said, right = (float((part * count).sum() / count.sum()) for part in (curve.confidence, curve.accuracy))
    verdict = "about right" if abs(said - right) < 0.01 else "too careful" if said < right else "too sure"
    words = (
        f"The probability that is stated for a label is {100 * said:.0f} % on average, and {100 * right:.0f} % of the "
        f"labels are right: {verdict}."
    )
    if curve.expected_error is not None:
        words += f" Expected calibration error: {100 * curve.expected_error:.1f} %."
    rows = [
        [f"{confidence:.2f}", f"{accuracy:.2f}", f"{number:,}"]
        for confidence, accuracy, number in zip(
            curve.confidence.tolist(), curve.accuracy.tolist(), curve.count.tolist(), strict=True
        )
    ]
    svg = inline_svg("reliability", lambda ax: plot_reliability({"pseudo-labels": curve}, ax), (5.4, 4.2))
    return Chart("Reliability", svg, words, ["stated probability", "right", "number"], rows)


def _confusion(content: RunContent) -> Chart | None:
    """Which classes are taken for which; for findings a table of hits and misses."""
    result = content.result
    if result is None or result.truth is None or not content.has_truth:
        return None
    truth, label, names = result.truth[content.judged], result.label[content.judged], content.names
    if content.multi_label:
        rows = []
        for place, name in enumerate(names):
            known = truth[:, place] >= 0
            true, said = truth[known, place] == 1, label[known, place] == 1
            cells = (true & said, ~true & said, true & ~said, ~true & ~said)
            rows.append([name, *(f"{int(cell.sum()):,}" for cell in cells)])
        header = ["finding", "found", "false alarm", "missed", "rightly absent"]
        return Chart(
            "Findings, right and wrong", "", "Pseudo-labels against the truth, for every finding.", header, rows
        )
    size = len(names)
    known = label >= 0
    count = np.bincount(truth[known] * size + label[known], minlength=size * size).reshape(size, size)
    wrong = count - np.diag(np.diag(count))
    words = f"{int(np.trace(count)):,} of {int(count.sum()):,} pseudo-labels are right."
    if wrong.any():
        row, column = np.unravel_index(wrong.argmax(), wrong.shape)
        words += f" Most often mistaken: {names[row]} for {names[column]}, {wrong[row, column]:,} times."
    pairs = np.argsort(-wrong, axis=None, kind="stable")[:30]
    rows = [[names[p // size], names[p % size], f"{wrong.flat[p]:,}"] for p in pairs.tolist() if wrong.flat[p]]
    svg = inline_svg("confusion", lambda ax: plot_confusion(truth, label, names, ax), (5.4, 5.0))
    return Chart("Confusion", svg, words, ["true class", "pseudo-label", "number"], rows)


def _balance(content: RunContent) -> Chart:
    """Images per class: given labels, pseudo-labels, truth."""
    result = content.result
    assert result is not None
    kinds = {"labels given": (result.label, result.labelled), "pseudo-labels": (result.label, content.pseudo)}
    if content.has_truth and result.truth is not None:
        kinds["truth"] = (result.truth, content.judged)
    counts = {name: _count(content, label[chosen]) for name, (label, chosen) in kinds.items()}
    largest = int(counts["pseudo-labels"].argmax())
    smallest = int(counts["pseudo-labels"].argmin())
    words = (
        f"The largest class by pseudo-labels is {content.names[largest]} ({counts['pseudo-labels'][largest]:,}), "
        f"the smallest {content.names[smallest]} ({counts['pseudo-labels'][smallest]:,})."
    )
    rows = [[name, *(f"{count[place]:,}" for count in counts.values())] for place, name in enumerate(content.names)]
    svg = inline_svg("balance", lambda ax: plot_class_balance(counts, content.names, ax))
    return Chart("Class balance", svg, words, ["class", *counts], rows)


def _count(content: RunContent, label: np.ndarray) -> np.ndarray:
    """Nodes per class, or images per finding."""
    if content.multi_label:
        return (label == 1).sum(axis=0)
    return np.bincount(label[label >= 0], minlength=len(content.names))


def _percent(value: object) -> str:
    return "–" if not isinstance(value, int | float) else f"{100 * value:.2f} %"
