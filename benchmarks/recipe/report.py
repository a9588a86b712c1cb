"""The tables and figures of ``recipe``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shared import machine
from shared.table import markdown

Row = dict[str, Any]

#: What the recipe's own row is called, and the most that a doubled solve may change.
CREPE, STABLE = "CREPE", 0.3

#: Colours that stay apart for the colour-blind (Okabe and Ito), with a marker each so that grey will do.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"


class Table:
    """Errors by case and row, over the splits on which every row of the case is finished.

    Args:
        rows (list): The rows of the cells.
        names (list): The rows of the table, in order.
        value (str): Which column is averaged. (default: the error)
    """

    def __init__(self, rows: Sequence[Row], names: Sequence[str], value: str = "error") -> None:
        self.names = list(names)
        found: dict[str, dict[str, dict[int, float]]] = {}
        for row in rows:
            if row[value] != "":
                found.setdefault(row["case"], {}).setdefault(row["variant"], {})[int(row["seed"])] = float(row[value])
        self.cases = list(found)
        self.values: dict[str, dict[str, np.ndarray]] = {}
        for case, by_name in found.items():
            common = sorted(set.intersection(*(set(by_name.get(name, {})) for name in self.names)))
            self.values[case] = {name: np.array([by_name[name][seed] for seed in common]) for name in self.names}

    def splits(self, case: str) -> int:
        """How many splits every row of a case has."""
        return len(self.values[case][self.names[0]])

    def mean(self, case: str, name: str) -> float:
        """The mean over splits, NaN where there is none."""
        values = self.values[case][name]
        return float(values.mean()) if len(values) else float("nan")

    def difference(self, case: str, name: str, base: str = CREPE) -> tuple[float, float]:
        """The mean difference from a row over the same splits, and its standard error (NaN for one split)."""
        gap = self.values[case][name] - self.values[case][base]
        if not len(gap):
            return float("nan"), float("nan")
        return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else float("nan")

    def lines(self, cases: Sequence[str] | None = None) -> list[str]:
        """The table with a line a case, the lowest of its errors in bold."""
        return markdown(["error in % (splits)", *self.names], [self._line(case) for case in cases or self.cases])

    def _line(self, case: str) -> list[str]:
        means = [round(self.mean(case, name), 2) for name in self.names]
        lowest = np.nanmin(means) if not np.isnan(means).all() else None
        cells = [_bold(f"{mean:.2f}", mean == lowest) if mean == mean else "–" for mean in means]
        return [f"{case} ({self.splits(case)})", *cells]


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text


def write(
    name: str, rows: list[Row], names: list[str], panels: dict[str, dict[str, str]], stem: Path, images: Path
) -> list[str]:
    """Writes the csv file, the tables and the figure of an experiment; returns the lines of the tables.

    Args:
        name (str): The experiment.
        rows (list): The rows of its cells.
        names (list): The rows of its table.
        panels (dict): The values of every constant, by their variant.
        stem (Path): The files without their endings.
        images (Path): The folder of the figure.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    machine.write_csv(rows, stem.with_name(f"{stem.name}.csv"))
    writers: dict[str, Callable[[], list[str]]] = {
        "flow": lambda: _flow_report(rows),
        "ablation": lambda: _ablation_report(Table(rows, names)),
        "stability": lambda: _stability_report(Table(rows, names)),
        "effects": lambda: _effects_report(rows, panels),
        "robustness": lambda: _robustness_report(rows, names),
        "unchanged": lambda: _unchanged_report(rows),
    }
    lines = writers.get(name, lambda: Table(rows, names).lines())()
    text = "\n".join([machine.describe(), "", f"Experiment: {name}. Development splits, seeds from 100.", "", *lines])
    machine.write_text(text + "\n", stem.with_name(f"{stem.name}.md"))
    images.mkdir(parents=True, exist_ok=True)
    path = images / f"{stem.name}.png"
    if name == "flow":
        _draw_flow(rows, path)
    elif name == "effects":
        _draw_effects(rows, panels, path)
    elif name in ("labels", "k"):
        _draw_series(rows, names, "amount" if name == "labels" else "k", path)
    return lines


def _flow_report(rows: Sequence[Row]) -> list[str]:
    """Error and sum of ratios at every step, a line a case."""
    lines = []
    for what, digits in (("error", 2), ("ratios", 4)):
        steps = sorted({(int(row["step"]), float(row["time"])) for row in rows})
        body = []
        for case in dict.fromkeys(row["case"] for row in rows):
            cells = []
            for step, _ in steps:
                values = [float(row[what]) for row in rows if row["case"] == case and row["step"] == step]
                cells.append(f"{np.mean(values):.{digits}f}" if values else "–")
            body.append([case, *cells])
        title = "error in %" if what == "error" else "sum of ratios"
        lines += [*markdown([f"{title}, κ =", *(f"{time:.2g}" for _, time in steps)], body), ""]
    splits = len({row["seed"] for row in rows})
    lines += [
        f"At most {splits} splits. κ = 0 is the re-weighted start, κ = 0.4 the end of the recipe's first run; what "
        "follows it (the start beside it, balance, restarts) is left out here."
    ]
    return lines


def _ablation_report(table: Table) -> list[str]:
    """The table, and what every part is worth."""
    others = [name for name in table.names if name != CREPE]
    body = []
    for name in others:
        gaps = {case: table.difference(case, name)[0] for case in table.cases}
        gaps = {case: gap for case, gap in gaps.items() if gap == gap}
        if not gaps:
            continue
        worse, better = sum(gap > 0.005 for gap in gaps.values()), sum(gap < -0.005 for gap in gaps.values())
        most, least = max(gaps, key=lambda case: gaps[case]), min(gaps, key=lambda case: gaps[case])
        span = [f"{gaps[most]:+.2f} ({most})", f"{gaps[least]:+.2f} ({least})"]
        body.append([name, f"{worse}", f"{better}", f"{np.median(list(gaps.values())):+.2f}", *span])
    header = ["without the part: change of the error", "worse in", "better in", "median", "largest", "smallest"]
    return [*table.lines(), "", *markdown(header, body)]


def _stability_report(table: Table) -> list[str]:
    """What a doubled solve changes, in points, and whether that is within the line."""
    body, misses = [], []
    for case in (case for case in table.cases if table.splits(case)):
        cells = []
        for name in table.names[1:]:
            gap, error = table.difference(case, name)
            cells.append(f"{gap:+.2f}" + (f" ± {error:.2f}" if error == error else ""))
            if abs(gap) >= STABLE:
                misses.append(f"{case}, {name}: {gap:+.2f}")
        body.append([f"{case} ({table.splits(case)})", f"{table.mean(case, CREPE):.2f}", *cells])
    missing = [case for case in table.cases if not table.splits(case)]
    if missing:
        misses.append(f"not finished: {', '.join(missing)}")
    verdict = f"Changes of {STABLE} points or more: {'; '.join(misses) if misses else 'none'}."
    header = ["case (splits)", "error in %", *(f"{name}, change ± standard error" for name in table.names[1:])]
    return [*markdown(header, body), "", verdict]


def _effects_report(rows: Sequence[Row], panels: dict[str, dict[str, str]]) -> list[str]:
    """A table a constant: the error at every value."""
    lines = []
    for title, values in panels.items():
        table = Table(rows, list(dict.fromkeys(values.values())))
        header = [f"{title} =", *(_bold(text, name == CREPE) for text, name in values.items())]
        body = [
            [f"{case} ({table.splits(case)})", *(f"{table.mean(case, name):.2f}" for name in values.values())]
            for case in table.cases
        ]
        lines += [*markdown(header, body), ""]
    return ["Error in %; the default in bold.", "", *lines]


def _robustness_report(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """All nodes, then the small class alone."""
    lines = Table(rows, names).lines()
    for value, title in (("class_error", "Mean over the classes:"), ("small_error", "The small class alone:")):
        chosen = [row for row in rows if row["small_error"] != ""]
        if chosen:
            lines += ["", title, "", *Table(chosen, names, value).lines()]
    return lines


def _unchanged_report(rows: Sequence[Row]) -> list[str]:
    """How many labels a harmless change has changed."""
    body = []
    for case in dict.fromkeys(row["case"] for row in rows):
        changed = [int(row["changed"]) for row in rows if row["case"] == case]
        body.append([case, str(len(changed)), str(max(changed))])
    return markdown(["case", "splits", "most labels changed in a split"], body)


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _tidy(axes: Any) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_flow(rows: Sequence[Row], path: Path) -> None:
    """Error above, sum of ratios below, one column a case, one thin line a split and their mean."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    figure = _figure(2.6 * len(cases), 5)
    grid = figure.subplots(2, len(cases), squeeze=False)
    for place, case in enumerate(cases):
        own = [row for row in rows if row["case"] == case]
        for axes, what in zip(grid[:, place], ("error", "ratios"), strict=True):
            for seed in sorted({row["seed"] for row in own}):
                line = sorted((row["step"], row[what]) for row in own if row["seed"] == seed)
                axes.plot(*zip(*line, strict=True), color="#999999", linewidth=0.8)
            steps = sorted({int(row["step"]) for row in own})
            mean = [np.mean([row[what] for row in own if row["step"] == step]) for step in steps]
            axes.plot(steps, mean, color=_COLOURS[0], marker="o", markersize=4, linewidth=2)
            axes.axvline(6, color=_COLOURS[1], linestyle=":", linewidth=1.5)
            axes.set_xticks([0, 3, 6, 9, 12])
            _tidy(axes)
        grid[0, place].set_title(case, fontsize=10)
        grid[1, place].set_ylim(bottom=0)
        grid[1, place].set_xlabel("step")
    grid[0, 0].set_ylabel("error, %")
    grid[1, 0].set_ylabel("sum of ratios")
    figure.suptitle("Thin: one split; thick: their mean; dotted: where the recipe's first run ends", fontsize=10)
    figure.savefig(path, dpi=110)


def _draw_effects(rows: Sequence[Row], panels: dict[str, dict[str, str]], path: Path) -> None:
    """One panel a constant: the change of the error from the default, one line a case."""
    columns = 4
    figure = _figure(4.0 * columns, 3.0 * -(-len(panels) // columns))
    grid = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, values) in zip(grid, panels.items(), strict=False):
        table = Table(rows, list(dict.fromkeys(values.values())))
        for case, colour, marker in zip(table.cases, _COLOURS, _MARKERS, strict=False):
            change = [table.difference(case, name)[0] for name in values.values()]
            label = case if axes is grid[0] else None
            axes.plot(range(len(values)), change, color=colour, marker=marker, markersize=5, linewidth=1.3, label=label)
        # A collapse would flatten all else: the axis ends at ten points.
        axes.set_ylim(max(axes.get_ylim()[0], -5), min(axes.get_ylim()[1], 10))
        axes.axvline(list(values.values()).index(CREPE), color="#999999", linestyle=":", linewidth=1.5)
        axes.axhline(0, color="#999999", linewidth=0.8)
        crowded = sum(map(len, values)) > 24
        axes.set_xticks(range(len(values)), list(values), fontsize=8, rotation=25 if crowded else 0)
        axes.set_title(title, fontsize=10)
        _tidy(axes)
    for axes in grid[::columns]:
        axes.set_ylabel("change of the error, points")
    figure.legend(loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=100)


def _draw_series(rows: Sequence[Row], names: Sequence[str], axis: str, path: Path) -> None:
    """One panel a data set: error against the number of labels or neighbours, one line a model."""
    sets = list(dict.fromkeys(row["data"] for row in rows))
    figure = _figure(3.4 * len(sets), 3.6)
    for axes, data in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets, strict=True):
        own = [row for row in rows if row["data"] == data]
        table = Table(own, names)
        place = {row["case"]: float(row[axis]) for row in own}
        cases = [case for case in table.cases if table.splits(case)]
        for name, colour, marker in zip(names, _COLOURS, _MARKERS, strict=False):
            points = sorted((place[case], table.mean(case, name)) for case in cases)
            if points:
                width = 2.2 if name == CREPE else 1.2
                label = name if data == sets[0] else None
                axes.plot(*zip(*points, strict=True), color=colour, marker=marker, linewidth=width, label=label)
        ticks = sorted({place[case] for case in cases})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_title(own[0]["case"].partition(",")[0], fontsize=10)
        axes.set_xlabel("labels per class" if axis == "amount" else "k")
        _tidy(axes)
    figure.axes[0].set_ylabel("error, %")
    figure.legend(loc="outside lower center", ncols=len(names), frameon=False)
    figure.savefig(path, dpi=110)
