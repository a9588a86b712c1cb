"""What ``benchmarks/more_labels.py`` writes: errors at every step, how they change from step to step, and curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from shared.family_job import CREPE
from shared.picture import write_picture
from shared.step_job import BATCH, COMPARED, WAYS
from shared.table import markdown, opening

from tg_crepe.viz import MARKERS, PALETTE

Row = dict[str, Any]

#: What tables call the ways to choose.
TITLES = {"chosen": "label_next", "random": "at random"}

#: The two errors of a row, and the nodes that they are of.
ERRORS = {"error": "nodes without a label", "same_error": "nodes that no step labels"}


@dataclass(frozen=True)
class Change:
    """How errors change from a step to the next, in points, over seeds.

    Args:
        values (tuple): The change of every seed that has both steps.
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean change; below zero where labels help."""
        return mean(self.values)

    @property
    def rises(self) -> list[float]:
        """The changes of those seeds whose error rose."""
        return [value for value in self.values if value > 1e-9]

    def __str__(self) -> str:
        rises = self.rises
        count = f"{len(rises)} of {len(self.values)}"
        text = f"{_signed(self.mean)} ({count} rose{f', by {max(rises):.2f} at most' if rises else ''})"
        return f"**{text}**" if self.mean > 1e-9 else text

    @classmethod
    def join(cls, changes: Iterable[Change]) -> Change:
        """All of several steps."""
        return cls(tuple(value for change in changes for value in change.values))


class Results:
    """Errors by family, way, method, number of labels and seed.

    Args:
        rows (list): The rows of the cells.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self.families = list(dict.fromkeys(row["family"] for row in self.rows))
        self.steps = sorted({row["labels"] for row in self.rows})
        self.seeds = sorted({row["seed"] for row in self.rows})
        found = {(row["way"], row["method"]) for row in self.rows}
        #: The lines of the tables: those of one way below each other, so that methods compare on the same labels.
        self.lines = [(way, method) for way in WAYS for method in COMPARED if (way, method) in found]
        self._errors: dict[tuple[str, str, str, str], dict[int, dict[int, float]]] = {}
        for row in self.rows:
            for value in ERRORS:
                place = self._errors.setdefault((row["family"], row["way"], row["method"], value), {})
                place.setdefault(row["labels"], {})[row["seed"]] = row[value]

    def errors(self, family: str, way: str, method: str, value: str = "error") -> dict[int, dict[int, float]]:
        """The error of every seed at every step; empty where there is none."""
        return self._errors.get((family, way, method, value), {})

    def changes(self, family: str, way: str, method: str, value: str = "error") -> list[Change | None]:
        """The change from every step to the next; :obj:`None` where no seed has both."""
        errors, found = self.errors(family, way, method, value), []
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            pair = errors.get(before, {}), errors.get(after, {})
            values = tuple(pair[1][seed] - pair[0][seed] for seed in self.seeds if seed in pair[0] and seed in pair[1])
            found.append(Change(values) if values else None)
        return found


def _signed(value: float) -> str:
    text = f"{value:+.2f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def _line(way: str, method: str) -> str:
    return f"{method}, {TITLES[way]}"


def overall_table(results: Results) -> list[str]:
    """Of all steps of all families, how many made the error larger."""
    body = []
    for way, method in results.lines:
        line = [_line(way, method)]
        for value in ERRORS:
            all_steps = [results.changes(family, way, method, value) for family in results.families]
            steps = [change for own in all_steps for change in own if change is not None]
            rises = Change.join(steps).rises
            line += [
                f"{sum(step.mean > 1e-9 for step in steps)} of {len(steps)}",
                f"{len(rises)} of {sum(len(step.values) for step in steps)}",
                f"{max(rises):.2f}" if rises else "–",
            ]
        body.append(line)
    header = ["mean rose", "a seed rose", "largest rise"]
    return markdown(["method, who chooses", *header, *(f"same nodes: {name}" for name in header)], body)


def error_table(results: Results, family: str) -> list[str]:
    """The mean error at every step."""
    body = []
    for way, method in results.lines:
        errors = results.errors(family, way, method)
        means = [f"{mean(errors[step].values()):.2f}" if step in errors else "–" for step in results.steps]
        body.append([_line(way, method), *means])
    return markdown([f"{family}, error in %", *(f"{step} labels" for step in results.steps)], body)


def change_table(results: Results, family: str, value: str) -> list[str]:
    """How the error changes from every step to the next."""
    body = [
        [_line(way, method), *("–" if c is None else str(c) for c in results.changes(family, way, method, value))]
        for way, method in results.lines
    ]
    pairs = zip(results.steps, results.steps[1:], strict=False)
    return markdown([f"change in points, {ERRORS[value]}", *(f"{before} → {after}" for before, after in pairs)], body)


def summary(results: Results, failed: int = 0) -> str:
    """The whole report."""
    lines = [
        *opening(failed),
        f"Seeds {results.seeds[0]} to {results.seeds[-1]}. One random label of every class, then {BATCH} at a time, "
        "chosen by CREPE's own loop (`label_next`) or at random; every step keeps the labels of the one before. All "
        "methods are judged on the same labels. CREPE is told that the labels of the loop are chosen. The loop asks "
        "for many more labels of some classes than of others, and LGC as in its paper (lgc) lets a class with many "
        "labels outweigh the others; lgc balanced is `LGC(balanced=True)`, which does not. A node that no label "
        "reaches counts as an error.",
        "",
        f"Errors are those of the {ERRORS['error']}. Of these the loop takes the doubtful ones away, so that the error "
        f"of the others falls by itself; the {ERRORS['same_error']} are the same at every step, and other ones for the "
        "loop than for chance. In bold: the mean over seeds rose.",
        "",
        "How often more labels made the error larger, over the steps of all families: of its mean over seeds, of every "
        "seed for itself, and by how many points at most:",
        "",
        *overall_table(results),
        "",
    ]
    for family in results.families:
        lines += [f"## {family}", "", *error_table(results, family), ""]
        for value in ERRORS:
            lines += [*change_table(results, family, value), ""]
    return "\n".join(lines).rstrip() + "\n"


def draw_curves(results: Results, path: Path) -> None:
    """A panel per family: the mean error against the number of labels, and its range over seeds."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    columns, methods = min(len(results.families), 2), list(COMPARED)
    rows = -(-len(results.families) // columns)
    figure = Figure(figsize=(max(4.2 * columns, 7.2), 2.8 * rows + 1.2), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, family in zip(grid, results.families, strict=False):
        for way, method in results.lines:
            errors = results.errors(family, way, method)
            steps, own = sorted(errors), methods.index(method)
            style = {"color": PALETTE[own], "marker": MARKERS[own], "markersize": 4}
            means = [mean(errors[step].values()) for step in steps]
            if way == "chosen":
                low, high = ([pick(errors[step].values()) for step in steps] for pick in (min, max))
                axes.fill_between(steps, low, high, color=PALETTE[own], alpha=0.15, linewidth=0)
                axes.plot(steps, means, label=_line(way, method), linewidth=2.2 if method == CREPE else 1.4, **style)
            else:
                axes.plot(steps, means, "--", label=_line(way, method), linewidth=1, markerfacecolor="white", **style)
        axes.set_xscale("log")
        axes.set_xticks(results.steps, [str(step) for step in results.steps])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylim(bottom=0)
        axes.set_title(family, fontsize=11)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[len(results.families) :]:
        axes.set_visible(False)
    seeds = f"seeds {results.seeds[0]} to {results.seeds[-1]}"
    figure.suptitle(
        f"Error in % against the number of labels\nlines: mean over {seeds}, shades: their range (label_next)",
        fontsize=10,
    )
    # One column per method, the ways below each other.
    handles, names = grid[0].get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda i: methods.index(results.lines[i][1]))
    handles, names = [handles[i] for i in order], [names[i] for i in order]
    figure.legend(handles, names, loc="outside lower center", ncols=len(methods), frameon=False, fontsize=8)
    write_picture(figure, path)
