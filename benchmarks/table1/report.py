"""What ``table1`` writes: the table, the comparison with the paper, the tests of significance and the figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel, wilcoxon
from shared import machine
from shared.grid import Value
from table1.methods import CREPE, INSIDE, METHODS, MODEL, PEER, TUNED
from table1.paper import COLUMNS, PAPER, VERDICTS, verdict

Row = dict[str, Value]

_CREPE = "CREPE"  # the row that the others are compared with
_START = next(method.name for method in METHODS if method.role == INSIDE)

_DEVIATIONS = """\
What differs from the paper. Its Table 1 names no data set; that it is Fashion-MNIST is an inference (of the six sets
that the paper describes it is the only one that no other table reports on, and the errors are of its size). Its
features are those of a 13-layer network, and it does not say how that was trained; ours are an unsupervised patch
dictionary (`benchmarks/features.py`), so that no label enters the graph. The errors of all rows move together with the
features: compare rows within a column before columns with the paper. The paper gives neither the parameters of the
other models nor the edge weights. Ours: self-tuned Gaussian weights, stratified random splits, and published defaults
in the rows that stand for the paper's."""


@dataclass(frozen=True)
class Results:
    """Errors by column, method and seed."""

    rows: list[Row]

    @cached_property
    def errors(self) -> dict[str, dict[str, dict[int, float]]]:
        """The error by column, method and seed."""
        found: dict[str, dict[str, dict[int, float]]] = {}
        for row in self.rows:
            cell = found.setdefault(str(row["column"]), {}).setdefault(str(row["method"]), {})
            cell[int(row["seed"])] = float(row["error"])
        return found

    @cached_property
    def roles(self) -> dict[str, str]:
        """The role of every method, in the order of the table."""
        order = {method.name: place for place, method in enumerate(METHODS)}
        found = {str(row["method"]): str(row["role"]) for row in self.rows}
        return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))

    def methods(self, *roles: str) -> list[str]:
        """The methods of some roles, in the order of the table."""
        return [name for name, role in self.roles.items() if role in roles]

    def figure(self, column: str, method: str) -> tuple[float, float] | None:
        """Mean and deviation of a cell of the table."""
        errors = list(self.errors.get(column, {}).get(method, {}).values())
        return (float(np.mean(errors)), float(np.std(errors, ddof=1)) if len(errors) > 1 else 0.0) if errors else None

    def pairs(self, column: str, method: str) -> tuple[np.ndarray, np.ndarray]:
        """The errors of CREPE and of a method on the splits that both have."""
        ours, theirs = (self.errors[column].get(name, {}) for name in (_CREPE, method))
        seeds = sorted(ours.keys() & theirs.keys())
        return np.array([ours[s] for s in seeds]), np.array([theirs[s] for s in seeds])

    def best(self, column: str, methods: Iterable[str]) -> str | None:
        """The method with the lowest error relative to CREPE's on the same splits, at least half of CREPE's."""
        needed = len(self.errors[column].get(_CREPE, {})) / 2
        gains = {}
        for method in methods:
            ours, theirs = self.pairs(column, method)
            if 0 < needed <= len(ours):
                gains[method] = float((theirs - ours).mean())
        return min(gains, key=lambda method: gains[method]) if gains else None


def _table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def error_table(results: Results) -> list[str]:
    """Mean ± deviation of every row, with the number of splits where it is not that of CREPE."""
    columns = list(results.errors)
    rows = []
    for method in results.methods(CREPE, INSIDE, MODEL, PEER):
        cells = []
        for column in columns:
            figure = results.figure(column, method)
            count = len(results.errors[column].get(method, {}))
            note = "" if count == len(results.errors[column].get(_CREPE, {})) else f" ({count})"
            cells.append(f"{figure[0]:.2f} ± {figure[1]:.2f}{note}" if figure else "–")
        rows.append([method, *cells])
    for title, roles in (
        ("*best other*", (MODEL, PEER)),
        ("*best other, parameters tuned on test labels too*", (MODEL, PEER, TUNED)),
    ):
        cells = []
        for column in columns:
            best = results.best(column, results.methods(*roles))
            cells.append(f"{results.pairs(column, best)[1].mean():.2f}: {best}" if best else "–")
        rows.append([title, *cells])
    return _table(["error in %", *columns], rows)


def significance_table(results: Results) -> list[str]:
    """CREPE against its start and the best others, paired over splits."""
    rows = []
    for column in results.errors:
        rivals = {
            "its start": _START,
            "best other": results.best(column, results.methods(MODEL, PEER)),
            "best other, tuned on test labels": results.best(column, results.methods(MODEL, PEER, TUNED)),
        }
        for what, rival in rivals.items():
            ours, theirs = results.pairs(column, rival) if rival else (np.array([]), np.array([]))
            if len(ours) < 2:
                continue
            difference = ours - theirs
            # Where all differences are equal to rounding neither test is defined.
            same = bool(np.ptp(difference) < 1e-9)
            tests = ("–", "–") if same else tuple(f"{test(ours, theirs).pvalue:.1e}" for test in (ttest_rel, wilcoxon))
            wins = f"{int((difference < 0).sum())} of {len(ours)}"
            gain = f"{-100 * difference.mean() / theirs.mean():+.1f} %" if theirs.mean() > 0 else "–"
            shift = f"{difference.mean():+.2f} ± {difference.std(ddof=1):.2f}"
            rows.append([column, what, str(rival), shift, gain, wins, *tests])
    head = [
        "labels",
        "CREPE against",
        "which is",
        "difference in points",
        "fewer errors by",
        "wins",
        "t-test p",
        "Wilcoxon p",
    ]
    return _table(head, rows)


def paper_table(results: Results) -> list[str]:
    """Our cell, the paper's and a verdict."""
    columns = [column for column in COLUMNS if column in results.errors]
    stands_for = {method.paper: method.name for method in METHODS if method.paper}
    measured: dict[str, Mapping[str, tuple[float, float]]] = {}
    for column in columns:
        figures = {name: results.figure(column, method) for name, method in stands_for.items()}
        measured[column] = {name: figure for name, figure in figures.items() if figure is not None}
    rows = []
    for name, figures in PAPER.items():
        if not any(name in measured[column] for column in columns):
            continue
        rows.append([f"**{name}** (paper)", *(f"{m:.2f} ± {s:.2f}" for m, s in (figures[c] for c in columns))])
        ours = [measured[c].get(name) for c in columns]
        rows.append([stands_for[name], *(f"{f[0]:.2f} ± {f[1]:.2f}" if f else "–" for f in ours)])
        rows.append(["", *(verdict(name, c, measured[c]) if name in measured[c] else "–" for c in columns)])
    return _table(["error in %", *columns], rows)


def choice_lines(results: Results) -> list[str]:
    """What the hold-out chose, by column."""
    lines = []
    for method in results.methods(MODEL):
        chosen: dict[str, list[float]] = {}
        for row in results.rows:
            if row["method"] == method and row["choice"]:
                chosen.setdefault(str(row["column"]), []).append(float(row["choice"]))
        if chosen:
            medians = ", ".join(f"{np.median(values):g} ({column})" for column, values in chosen.items())
            lines.append(f"- {method}, median over the splits: {medians}.")
    return lines


def status_lines(results: Results) -> list[str]:
    """The rows whose solver ended without reaching its tolerance, with how often."""
    lines = []
    for method in results.roles:
        found = [str(row["status"]) for row in results.rows if row["method"] == method]
        short = sum(status not in ("", "converged") for status in found)
        if short:
            lines.append(f"- {method}: {short} of {len(found)} cells.")
    return lines


def summary(results: Results, title: str, failed: int, compare: bool) -> str:
    """The whole report.

    Args:
        results (Results): What was measured.
        title (str): One line on data and graph.
        failed (int): The number of cells that ended with an error.
        compare (bool): Whether the data are those of the paper's table.
    """
    most = max(len(cell) for column in results.errors.values() for cell in column.values())
    lines = [machine.describe(), "", title, ""]
    if failed:
        lines += [f"**{failed} cells failed and are missing.**", ""]
    lines += [
        "Error in % on the nodes that are not labelled (on the test nodes of a public split); a node that no label "
        f"reaches counts as an error. Mean ± deviation over at most {most} stratified random splits, the same for "
        "every row; in brackets how many where they are not as many as CREPE's. A best other is chosen on the test "
        "error itself, so it flatters the others; it must have been run on half of CREPE's splits.",
        "",
        *error_table(results),
        "",
        "Parameters that were chosen without a test label (hold-out: 3 folds of the labelled nodes; with one label "
        "per class nothing can be held out and the published value is taken):",
        "",
        *choice_lines(results),
        "",
        "Paired over splits; a difference below zero means fewer errors of CREPE. p-values are two-sided and not "
        "corrected for the number of columns.",
        "",
        *significance_table(results),
        "",
    ]
    short = status_lines(results)
    if short:
        lines += ["Solvers that ended at their limit rather than at their tolerance:", "", *short, ""]
    if compare:
        meanings = [f"- *{name}*: {text}." for name, text in VERDICTS.items()]
        lines += ["Beside the paper's Table 1:", "", *paper_table(results), "", *meanings, "", _DEVIATIONS, ""]
    return "\n".join(lines)


#: Colours that stay apart for the colour-blind (Okabe and Ito), with a marker each so that grey will do.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_MARKERS = "osD^vPX*<>pHd|x1234"


def _amounts(results: Results, split: str, scale: float) -> dict[str, float]:
    """Where the columns of a kind of split stand on the axis; nothing for a single one."""
    found = {str(row["column"]): scale * float(row["amount"]) for row in results.rows if row["split"] == split}
    return found if len(found) > 1 else {}


def draw(results: Results, path: Path) -> None:
    """Error against the labels, one line a model, on two logarithmic axes; nothing where there is but one column.

    The axis is the share of the nodes, or the labels per class where the table has no two shares.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    amounts = _amounts(results, "share", 100) or _amounts(results, "count", 1)
    if not amounts:
        return
    title = "labels per class" if next(iter(amounts)).endswith("class") else "labelled nodes, %"
    columns = sorted(amounts, key=lambda column: amounts[column])
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    for place, method in enumerate(results.methods(CREPE, INSIDE, MODEL)):
        points = [(amounts[c], f[0]) for c in columns if (f := results.figure(c, method)) is not None]
        if not points:
            continue
        main = method == _CREPE
        axes.plot(
            *zip(*points, strict=True),
            label=method,
            color=_COLOURS[place % len(_COLOURS)],
            marker=_MARKERS[place % len(_MARKERS)],
            linestyle="-" if place < len(_COLOURS) else "--",
            linewidth=2.5 if main else 1.2,
            markersize=6 if main else 5,
            zorder=3 if main else 2,
        )
    axes.set(xscale="log", yscale="log", xlabel=title, ylabel="error on unlabelled nodes, %")
    axes.set_xticks([amounts[c] for c in columns])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(alpha=0.3, which="both")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(path, dpi=120)
