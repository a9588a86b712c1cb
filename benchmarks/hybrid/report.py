"""The tables and figures of ``hybrid``, made from its csv files alone."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hybrid.cases import AS_IT_IS, PIECES, SOURCES, TITLES
from scipy.stats import ttest_rel, wilcoxon
from shared import machine

from tg_crepe.viz import MARKERS, PALETTE

Row = Mapping[str, str]

#: The paper's area under the curve on all of ChestX-ray14 at 20 % labels, by finding (its table of semi-supervised
#: techniques).
PAPER_CHEST = {
    "Atelectasis": 78.65, "Cardiomegaly": 88.74, "Effusion": 83.15, "Infiltration": 72.25, "Mass": 83.41,
    "Nodule": 76.61, "Pneumonia": 76.04, "Pneumothorax": 86.89, "Consolidation": 75.42, "Edema": 84.96,
    "Emphysema": 90.95, "Fibrosis": 82.16, "Pleural_Thickening": 76.84, "Hernia": 88.38,
}  # fmt: skip
PAPER_CHEST_AVERAGE = 81.75


#: The piece that asks networks of half the labels how sure pseudo-labels may be.
HALVES = "networks of half the labels"

#: Experiments that repeat another one with a piece of the trainer changed in all sources.
CHANGED = {"network_mixup": "mixup", "network_soft": "soft targets", "energy_soft": "soft targets"}

#: Where the runs without the change are.
_PLAIN = ("hybrid_network_10000_images.csv", "hybrid_network.csv", "hybrid_energy.csv")


def read(path: Path) -> list[Row]:
    """The rows of a csv file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Runs:
    """The rows of an experiment, by case.

    Args:
        rows (list): The rows of a csv file.
        piece (str, optional): The piece that is meant where none is named. (default: the trainer as it is)
    """

    def __init__(self, rows: Sequence[Row], piece: str = AS_IT_IS) -> None:
        self.rows = rows
        self.piece = piece
        self.cases = sorted(
            {(row["data"], float(row["percent"])) for row in rows}, key=lambda case: (list(TITLES).index(case[0]), case)
        )
        self.sources = [source for source in SOURCES if any(row["source"] == source for row in rows)]

    @staticmethod
    def title(case: tuple[str, float]) -> str:
        """How tables and figures call a case."""
        return f"{TITLES[case[0]]}, {case[1]:g} %"

    def of(self, case: tuple[str, float], source: str, piece: str | None = None) -> list[Row]:
        """The rows of all runs of a case with one source of pseudo-labels."""
        wanted = (case, source, piece or self.piece)
        return [r for r in self.rows if ((r["data"], float(r["percent"])), r["source"], r["piece"]) == wanted]

    def final(self, case: tuple[str, float], source: str, value: str, piece: str | None = None) -> dict[int, float]:
        """A value of the last models, by seed."""
        rows = [row for row in self.of(case, source, piece) if row["phase"] == "final" and row[value] != ""]
        return {int(row["seed"]): float(row[value]) for row in rows}

    def along(self, case: tuple[str, float], source: str, value: str) -> dict[int, list[float]]:
        """A value of all runs, by epoch; the last model, which has seen one epoch more, stands behind the last."""
        found: dict[int, list[float]] = {}
        for row in self.of(case, source):
            if row[value] != "":
                found.setdefault(int(row["epoch"]) + (row["phase"] == "final"), []).append(float(row[value]))
        return dict(sorted(found.items()))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a markdown table."""
    return [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def spread(values: Iterable[float], digits: int = 2) -> str:
    """Mean ± deviation over the runs."""
    found = list(values)
    if not found:
        return "–"
    deviation = f" ± {np.std(found, ddof=1):.{digits}f}" if len(found) > 1 else ""
    return f"{np.mean(found):.{digits}f}{deviation}"


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[str]:
    """Mean difference ± deviation over the seeds that both have, how often ours is lower, and two p-values."""
    seeds = sorted(ours.keys() & theirs.keys())
    gap = np.array([ours[seed] - theirs[seed] for seed in seeds])
    if not len(gap):
        return ["–"] * 4
    tests = ["–", "–"]
    if len(gap) > 1 and np.ptp(gap) > 1e-9:  # neither test is defined where all differences are equal
        pair = [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
        tests = [f"{ttest_rel(*pair).pvalue:.1e}", f"{wilcoxon(*pair).pvalue:.1e}"]
    sign = "+" if gap.mean() >= 0 else ""
    return [f"{sign}{spread(gap)}", f"{int((gap < 0).sum())} of {len(gap)}", *tests]


_PAIRED = ["difference", "lower in", "t-test p", "Wilcoxon p"]


def error_tables(runs: Runs) -> list[str]:
    """Errors of the last model and of its pseudo-labels, then CREPE against the others over the same seeds."""
    body = []
    pairs: dict[str, list[list[str]]] = {"test_error": [], "pseudo_error": []}
    for case in runs.cases:
        for source in runs.sources:
            cells = [spread(runs.final(case, source, value).values()) for value in ("test_error", "network_error")]
            made = spread(runs.final(case, source, "pseudo_error").values()) if source != "none" else "–"
            seconds = spread(runs.final(case, source, "cpu_seconds").values(), 0)
            body.append([runs.title(case), SOURCES[source], cells[0], made, cells[1], seconds])
        for value, found in pairs.items():
            ours = runs.final(case, "crepe", value)
            for source in runs.sources:
                rivals = runs.final(case, source, value) if source != "crepe" else {}
                if ours and rivals and (value, source) != ("pseudo_error", "none"):  # the supervised one has none
                    found.append([runs.title(case), SOURCES[source], *paired(ours, rivals)])
    header = ["", "pseudo-labels from", "test error, %", "pseudo-label error, %"]
    header += ["network's own error on the same images, %", "processor seconds a run"]
    lines = table(header, body)
    for value, title in {"test_error": "test error", "pseudo_error": "pseudo-label error at the end"}.items():
        if pairs[value]:  # without test images there are none
            lines += ["", f"CREPE hybrid against the others, paired over seeds, points of {title}:", ""]
            lines += table(["", "against", *_PAIRED], pairs[value])
    return lines


def calibration_table(runs: Runs) -> list[str]:
    """Expected calibration errors of network and energy for the same images, in the runs with an energy."""
    body = []
    for case in runs.cases:
        for source in (source for source in runs.sources if source in ("lgc", "crepe")):
            names = ("network_ece", "network_ece_fitted", "energy_ece", "energy_ece_fitted")
            found = [runs.final(case, source, name) for name in names]
            looks = [row for row in runs.of(case, source) if row["energy_ece_fitted"] != ""]
            wins = sum(float(row["energy_ece_fitted"]) < float(row["network_ece_fitted"]) for row in looks)
            plain = sum(float(row["energy_ece_fitted"]) < float(row["network_ece"]) for row in looks)
            last = sum(found[3][seed] < found[1][seed] for seed in found[3])
            cells = [spread(values.values()) for values in found]
            counts = [f"{last} of {len(found[3])}", f"{wins} of {len(looks)}", f"{plain} of {len(looks)}"]
            body.append([runs.title(case), SOURCES[source], *cells, *counts])
    header = ["expected calibration error, %", "", "network", "network, temperature fitted", "energy, paper's rule"]
    header += [
        "energy, `calibrated`",
        "energy lower at the end (both fitted)",
        "energy lower in all epochs (both fitted)",
    ]
    return table([*header, "`calibrated` lower than the network as it is, all epochs"], body)


def auc_tables(runs: Runs) -> list[str]:
    """The area under the curve by share of labels, and CREPE against the others."""
    body, pairs = [], []
    for case in runs.cases:
        by_source = {source: runs.final(case, source, "test_auc") for source in runs.sources}
        seeds = max(len(found) for found in by_source.values())
        cells = [spread(by_source[source].values()) for source in runs.sources]
        body.append([f"{runs.title(case)} ({seeds})", *cells])
        for source in runs.sources:
            if source != "crepe" and "crepe" in by_source:
                gap, lower, *tests = paired(by_source["crepe"], by_source[source])
                pairs.append([runs.title(case), SOURCES[source], gap, lower, *tests])
    header = ["area under the curve, % (seeds)", *(SOURCES[source] for source in runs.sources)]
    return [*table(header, body), "", "CREPE hybrid against the others, paired over seeds; above zero CREPE is better:",
            "", *table(["", "against", *_PAIRED], pairs)]  # fmt: skip


def findings_table(runs: Runs) -> list[str]:
    """The area by finding at the largest share of labels, the paper's beside it."""
    cases = [case for case in runs.cases if case[0] == "chestxray14_subset"]
    if not cases:
        return []
    case = cases[-1]
    by_source: dict[str, dict[str, list[float]]] = {}
    for source in runs.sources:
        for row in runs.of(case, source):
            for name, value in json.loads(row["auc_per_class"] or "{}").items():
                by_source.setdefault(source, {}).setdefault(name, []).append(value)
    names = dict.fromkeys(name for found in by_source.values() for name in found)
    body = [
        [name, *(spread(by_source.get(source, {}).get(name, [])) for source in runs.sources),
         f"{PAPER_CHEST[name]:.2f}" if name in PAPER_CHEST else "–"]
        for name in names
    ]  # fmt: skip
    average = [spread(runs.final(case, source, "test_auc").values()) for source in runs.sources]
    body.append(["**average**", *average, f"{PAPER_CHEST_AVERAGE:.2f}"])
    header = [runs.title(case), *(SOURCES[source] for source in runs.sources), "paper, all of ChestX-ray14, 20 %"]
    return ["", *table(header, body)]


#: What the pieces are compared in beside the test error.
_OF_PSEUDO_LABELS = {
    "pseudo_error": "pseudo-label error, %",
    "energy_ece_fitted": "calibration error of pseudo-labels, %",
    "network_ece_fitted": "that of the network, temperature fitted, %",
}


def pieces_table(runs: Runs) -> list[str]:
    """The error and the seconds of every change, beside the trainer as it is."""
    lines: list[str] = []
    for case in runs.cases:
        base = runs.final(case, "crepe", "test_error")
        body = []
        for piece in PIECES:
            found = runs.final(case, "crepe", "test_error", piece)
            if not found:
                continue
            cells = [spread(found.values())]
            cells += [spread(runs.final(case, "crepe", name, piece).values()) for name in _OF_PSEUDO_LABELS]
            change = paired(found, base) if piece != AS_IT_IS else ["–"] * 4
            seconds = [
                spread(runs.final(case, "crepe", name, piece).values(), 1) for name in ("energy_seconds", "cpu_seconds")
            ]
            body.append([piece, *cells, *change, *seconds])
        header = [runs.title(case), "test error, %", *_OF_PSEUDO_LABELS.values()]
        header += ["change of the test error", *_PAIRED[1:]]
        lines += [*table([*header, "seconds of the energy", "processor seconds a run"], body), ""]
    return lines


def plain_runs(folder: Path, rows: Sequence[Row]) -> list[Row]:
    """The runs of the other experiments with the same data sets, images, sources and seeds."""

    def point(row: Row) -> tuple[str | float, ...]:
        return row["data"], float(row["percent"]), row["images"], row["source"], row["seed"]

    wanted = {point(row) for row in rows}
    found = [row for name in _PLAIN if (folder / name).exists() for row in read(folder / name)]
    return [row for row in found if point(row) in wanted]


def change_table(runs: Runs, value: str, title: str) -> list[str]:
    """A value of the last models with a changed piece and without, over the same seeds; nothing where none are."""
    body = []
    for case in runs.cases:
        for source in runs.sources:
            plain, changed = (runs.final(case, source, value, piece) for piece in (AS_IT_IS, runs.piece))
            common = plain.keys() & changed.keys()
            if common:
                cells = [spread(found[seed] for seed in common) for found in (plain, changed)]
                cells += paired(changed, plain)
                body.append([runs.title(case), SOURCES[source], *cells])
    header = [title, "pseudo-labels from", f"without {runs.piece}", "with", *_PAIRED]
    note = (
        []
        if value == "test_error"
        else ["What the change does to the area, paired over seeds; above zero is better:", ""]
    )
    return ["", *note, *table(header, body)] if body else []


def halves_tables(runs: Runs) -> list[str]:
    """Calibration with the networks of half the labels and without, against the network's; then error and seconds."""
    body, costs = [], []
    for case in runs.cases:
        network, fitted, halves = (
            runs.final(case, "crepe", name, HALVES)
            for name in ("network_ece", "network_ece_fitted", "energy_ece_fitted")
        )
        plain = runs.final(case, "crepe", "energy_ece_fitted")
        looks = [row for row in runs.of(case, "crepe", HALVES) if row["energy_ece_fitted"] != ""]
        counts = [
            f"{sum(float(row['energy_ece_fitted']) < float(row[name]) for row in chosen)} of {len(chosen)}"
            for chosen in ([row for row in looks if row["phase"] == "final"], looks)
            for name in ("network_ece_fitted", "network_ece")
        ]
        body.append([runs.title(case), *(spread(x.values()) for x in (network, fitted, plain, halves)), *counts])
        values = {
            "test_error": "test error, %",
            "test_auc": "area under the curve, %",
            "cpu_seconds": "processor seconds",
        }
        for name, title in values.items():
            now, before = runs.final(case, "crepe", name, HALVES), runs.final(case, "crepe", name)
            row = [runs.title(case), title, spread(before.values()), spread(now.values()), *paired(now, before)]
            costs.append(row)
    header = ["expected calibration error, %", "network", "network, temperature fitted", "energy, without the halves"]
    header += ["energy, with them", "below the fitted network at the end", "below the network as it is at the end"]
    lines = table([*header, "below the fitted network, all epochs", "below the network as it is, all epochs"], body)
    header = ["", "", "without the halves", "with them", *_PAIRED]
    return [
        *lines,
        "",
        "The networks that learned from these pseudo-labels, paired over seeds (a lower area is worse):",
        "",
        *table(header, costs),
    ]


def features_table(folder: Path, name: str) -> list[str]:
    """Table 1 on the features of trained networks beside the unsupervised ones, for the same labelled images.

    Args:
        folder (Path): Where ``table1`` has written its csv files.
        name (str): The beginning of the names of the files of features.
    """
    found: dict[str, dict[str, float]] = {}
    for path in sorted(folder.glob(f"table1_{name}_*_trial.csv")):
        source, percent, seed = _FEATURES.fullmatch(path.stem).groups()  # type: ignore[union-attr]
        column = f"{percent} %"
        for row in read(path):
            if row["column"] == column and row["seed"] == seed:
                found.setdefault(row["method"], {})[f"{column}, {SOURCES[source]} network"] = float(row["error"])
        for row in read(folder / "table1.csv") if (folder / "table1.csv").exists() else []:
            if row["column"] == column and row["seed"] == seed:
                found.setdefault(row["method"], {})[f"{column}, unsupervised features"] = float(row["error"])
    columns = sorted({column for errors in found.values() for column in errors})
    body = [
        [method, *(f"{errors[column]:.2f}" if column in errors else "–" for column in columns)]
        for method, errors in found.items()
        if any("network" in column for column in errors)
    ]
    return table(["error in %", *columns], body) if body else []


_FEATURES = re.compile(r"table1_\w+_([a-z]+)_([\d.]+)_seed(\d+)_trial")


def summary(name: str, rows: Sequence[Row], failed: int = 0) -> str:
    """The tables of an experiment."""
    runs = _runs(name, rows)
    errors = change_table(runs, "test_error", "test error, %") if name in CHANGED else []
    areas = change_table(runs, "test_auc", "area under the curve, %") if name in CHANGED else []
    writers: dict[str, Callable[[Runs], list[str]]] = {
        "network": lambda runs: [*error_tables(runs), *errors, "", *calibration_table(runs)],
        "energy": lambda runs: [*auc_tables(runs), *areas, *findings_table(runs), "", *calibration_table(runs)],
        "pieces": pieces_table,
        "calibration": halves_tables,
        "features": error_tables,
    }
    seeds = sorted({int(row["seed"]) for row in rows})
    about = [
        f"{TITLES[data]}: {images} training images, {steps}"
        for data, images, steps in sorted({(r["data"], r["images"], _steps(r)) for r in rows if r["phase"] == "final"})
    ]
    lines = [
        machine.describe(),
        "",
        f"Seeds {seeds[0]} to {seeds[-1]}, mean ± deviation. " + "; ".join(about) + ".",
        "",
    ]
    if failed:
        lines += [f"**{failed} runs failed and are missing.**", ""]
    return "\n".join([*lines, *writers[_kind(name)](runs)]) + "\n"


def _kind(name: str) -> str:
    """The experiment that another one repeats with a change; the name itself where it repeats none."""
    return name.split("_")[0]


def _runs(name: str, rows: Sequence[Row]) -> Runs:
    return Runs(rows, CHANGED.get(name, AS_IT_IS))


def _steps(row: Row) -> str:
    return f"{row['steps']} steps at {float(row['percent']):g} %"


def draw(name: str, rows: Sequence[Row], path: Path) -> None:
    """The figure of an experiment."""
    runs = _runs(name, rows)
    if _kind(name) in ("network", "features"):
        _draw_epochs(runs, path)
    elif _kind(name) == "energy":
        _draw_rates(runs, path)
    elif name == "calibration":
        _draw_calibration(runs, path)
    else:
        _draw_pieces(runs, path)


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _tidy(axes: Any, title: str, x: str, y: str) -> None:
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _line(axes: Any, along: Mapping[int, Sequence[float]], place: int, label: str, style: str = "-") -> None:
    """The mean of all runs against the epoch, with one deviation around it."""
    if not along:
        return
    epochs = list(along)
    mean, deviation = (np.array([f(along[epoch]) for epoch in epochs]) for f in (np.mean, np.std))
    colour = PALETTE[place % len(PALETTE)]
    axes.plot(epochs, mean, color=colour, marker=MARKERS[place], markersize=4, linestyle=style, label=label)
    axes.fill_between(epochs, mean - deviation, mean + deviation, color=colour, alpha=0.12, linewidth=0)


def _draw_epochs(runs: Runs, path: Path) -> None:
    """Row by row the cases: test error if any, error of pseudo-labels, certainty at two looks, calibration."""
    tested = any(row["test_error"] != "" for row in runs.rows)
    figure = _figure(18 if tested else 14.4, 3.6 * len(runs.cases))
    panels = figure.subplots(len(runs.cases), 5 if tested else 4, squeeze=False)
    for line, case in zip(panels, runs.cases, strict=True):
        made, first_look, last_look, calibration = line[-4:]
        for place, source in enumerate(SOURCES):
            tests = {
                epoch: v for epoch, v in runs.along(case, source, "test_error").items() if epoch <= _last(runs, case)
            }
            _line(line[0], tests, place, SOURCES[source])
            if source != "none":
                _line(made, runs.along(case, source, "pseudo_error"), place, SOURCES[source])
        own = runs.along(case, "crepe", "network_error")
        _line(made, own, 5, "network beside CREPE", "--")
        looks = sorted(runs.along(case, "crepe", "pseudo_error"))
        for axes, epoch in zip((first_look, last_look), (looks[0], looks[-1]) if looks else (), strict=False):
            _draw_certainty(axes, runs, case, epoch)
        curves = {"network_ece": "network", "network_ece_fitted": "network, fitted"}
        curves |= {"energy_ece": "CREPE, paper's rule", "energy_ece_fitted": "CREPE, calibrated"}
        for place, (value, label) in enumerate(curves.items()):
            _line(calibration, runs.along(case, "crepe", value), place, label, "--" if "fitted" in value else "-")
        _tidy(made, f"pseudo-labels, {runs.title(case)}", "epoch", "error, %")
        _tidy(calibration, "calibration in the CREPE runs", "epoch", "expected calibration error, %")
        if tested:
            _tidy(line[0], runs.title(case), "epoch", "test error, %")
        for axes in {line[0], made, calibration}:
            axes.set_ylim(bottom=0)
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=100)


def _last(runs: Runs, case: tuple[str, float]) -> int:
    """The last epoch of a case; what stands behind it is measured on other test images."""
    return max(int(row["epoch"]) for row in runs.rows if (row["data"], float(row["percent"])) == case)


def _draw_certainty(axes: Any, runs: Runs, case: tuple[str, float], epoch: int) -> None:
    """The certainty of right and wrong pseudo-labels of all CREPE runs, each as shares of their number."""
    rows = [r for r in runs.of(case, "crepe") if int(r["epoch"]) + (r["phase"] == "final") == epoch and r["right"]]
    for place, kind in enumerate(("right", "wrong")):
        count = np.sum([np.array(row[kind].split(), dtype=float) for row in rows], axis=0)
        edges = np.linspace(0, 1, len(count) + 1)
        width = 0.42 / len(count)
        middle = (edges[:-1] + edges[1:]) / 2 + (place - 0.5) * width
        share = 100 * count / max(count.sum(), 1)
        look = {"color": PALETTE[place], "hatch": ("//", "..")[place], "edgecolor": "black", "linewidth": 0.6}
        axes.bar(middle, share, width, label=f"{kind} ({int(count.sum()):,})", **look)
    _tidy(axes, f"certainty of CREPE, epoch {epoch}", "certainty", "share of its kind, %")
    axes.legend(fontsize=7, frameon=False)


def _draw_rates(runs: Runs, path: Path) -> None:
    """One panel a data set: the area under the curve against the share of labels."""
    sets = list(dict.fromkeys(data for data, _ in runs.cases))
    figure = _figure(4.2 * len(sets), 3.8)
    for axes, data in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets, strict=True):
        rates = [percent for name, percent in runs.cases if name == data]
        for place, source in enumerate(runs.sources):
            found = [list(runs.final((data, rate), source, "test_auc").values()) for rate in rates]
            shift = 1 + 0.02 * (place - 1.5)  # the bars must not hide each other
            axes.errorbar(
                [rate * shift for rate in rates], [np.mean(v) if v else np.nan for v in found],
                [np.std(v) if v else np.nan for v in found], color=PALETTE[place], marker=MARKERS[place],
                capsize=2, label=SOURCES[source] if data == sets[0] else None,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
        axes.minorticks_off()
        _tidy(axes, TITLES[data], "labelled images, %", "area under the curve, %")
    figure.legend(loc="outside lower center", ncols=len(runs.sources), frameon=False)
    figure.savefig(path, dpi=100)


def _draw_pieces(runs: Runs, path: Path) -> None:
    """One panel a case: the change of the test error by every piece, one point a seed."""
    figure = _figure(6.5 * len(runs.cases), 3.8)
    for axes, case in zip(figure.subplots(1, len(runs.cases), squeeze=False)[0], runs.cases, strict=True):
        base = runs.final(case, "crepe", "test_error")
        pieces = [p for p in PIECES if p != AS_IT_IS and runs.final(case, "crepe", "test_error", p)]
        for place, piece in enumerate(pieces):
            found = runs.final(case, "crepe", "test_error", piece)
            gaps = [found[seed] - base[seed] for seed in found if seed in base]
            axes.plot(gaps, [place] * len(gaps), "|", color="#999999", markersize=9)
            axes.plot([np.mean(gaps)] if gaps else [], [place] if gaps else [], "D", color=PALETTE[0], markersize=6)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(pieces)), pieces)
        axes.invert_yaxis()
        _tidy(axes, runs.title(case), "change of the test error, points", "")
    figure.savefig(path, dpi=100)


def _draw_calibration(runs: Runs, path: Path) -> None:
    """One line a case: the calibration error of network and energy, mean and deviation over the seeds."""
    kinds = {
        "network": ("network_ece", HALVES),
        "network, temperature fitted": ("network_ece_fitted", HALVES),
        "CREPE": ("energy_ece_fitted", AS_IT_IS),
        "CREPE, networks of half the labels asked": ("energy_ece_fitted", HALVES),
    }
    figure = _figure(8, 0.55 * len(runs.cases) + 1.6)
    axes = figure.subplots()
    for number, (title, (name, piece)) in enumerate(kinds.items()):
        found = {place: runs.final(case, "crepe", name, piece) for place, case in enumerate(runs.cases)}
        shown = {place: list(values.values()) for place, values in found.items() if values}
        axes.errorbar(
            [np.mean(values) for values in shown.values()],
            [place + 0.15 * (number - 1.5) for place in shown],
            xerr=[np.std(values) for values in shown.values()],
            fmt=MARKERS[number],
            color=PALETTE[number],
            label=title,
        )
    axes.set_yticks(range(len(runs.cases)), [runs.title(case) for case in runs.cases])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.legend(fontsize=8)
    _tidy(axes, "Pseudo-labels of the last network", "expected calibration error, %", "")
    figure.savefig(path, dpi=100)
