"""The tables of the page of details, and the sentences with figures outside of tables, from the CSV files alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from contest.images import standing as image_standing
from contest.tables import link
from scaling import exponent
from shared.family_job import CREPE
from shared.images_job import HEAD
from shared.table import markdown, read_rows
from table1.verdict import Comparison, comparisons

#: The data set and the labels per class that stand for all in a sentence.
_CIFAR, _COUNTS = "cifar10_subset", (1, 5, 25, 100)

#: How the strategies of ``label_next`` are called on the page.
_STRATEGIES = {"coverage": "`coverage` (the default)", "random": "at random"}


def small_graphs(stem: str, folder: Path) -> str | None:
    """Mean ± deviation of every model on every small graph of ``core.py``."""
    rows = read_rows(folder / f"{stem}.csv")
    if not rows:
        return None
    data, models = (list(dict.fromkeys(row[name] for row in rows)) for name in ("data", "model"))
    body = []
    for model in models:
        own = [[row["error"] for row in rows if (row["data"], row["model"]) == (name, model)] for name in data]
        body.append([model, *(f"{mean(values):.2f} ± {stdev(values):.2f} ({median(values):.2f})" for values in own)])
    return "\n".join(markdown(["error in %", *data], body))


def label_choice(folder: Path) -> str | None:
    """The error after so many labels by every way to choose them, the lowest mean first."""
    rows = read_rows(folder / "label_next.csv")
    if not rows:
        return None
    counts = sorted({row["labels"] for row in rows})
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        errors = [
            mean(row["error"] for row in rows if (row["method"], row["labels"]) == (method, count)) for count in counts
        ]
        name = _STRATEGIES.get(method, method if " " in method else f"`{method}`")
        lines.append((mean(errors), [name, *(f"{error:.2f}" for error in errors), f"{mean(errors):.2f}"]))
    header = ["strategy", f"{counts[0]} labels", *map(str, counts[1:]), "mean"]
    return "\n".join(markdown(header, [line for _, line in sorted(lines)]))


def growth(folder: Path) -> str | None:
    """How the time of a call grows, as a sentence."""
    rows = [row for row in read_rows(folder / "scaling.csv") if row["series"] == "nodes"]
    if not rows:
        return None
    return (
        f"Time grows with edges × classes to the power {exponent(rows, 'seconds'):.2f} up to "
        f"{max(row['nodes'] for row in rows):,} nodes."
    )


def stages(folder: Path) -> str | None:
    """Where the processor seconds of the command go."""
    rows = read_rows(folder / "profile.csv")
    if not rows:
        return None
    return "\n".join(markdown([row["stage"] for row in rows], [[f"{row['processor']:.1f}" for row in rows]]))


def keys_pressed(folder: Path) -> str | None:
    """What a few answers on digits bring, as a sentence."""
    rows = [row for row in read_rows(folder / "labelling.csv") if row["data"] == "digits"]
    if not rows:
        return None

    def error(method: str, keys: int) -> float:
        return mean(row["error"] for row in rows if (row["method"], row["keys"]) == (method, keys))

    sessions = len({row["seed"] for row in rows if row["method"] == "label"})
    return (
        f"{sessions} simulated sessions on 1,797 digits: {error('label', 20):.1f} % of all are wrong after 20 answers, "
        f"{error('label', 50):.1f} % after 50, where answers at random leave {error('random', 20):.0f} and "
        f"{error('random', 50):.1f} % (`python benchmarks/contest labelling`, {link('labelling')})."
    )


def images_sentences(folder: Path) -> str | None:
    """How the default stands on images through a pretrained network, in sentences."""
    rows = read_rows(folder / "contest_images.csv")
    if not rows:
        return None
    standing = image_standing(rows)
    order = sorted(standing.methods, key=standing.mean_ratio)
    best = next(name for name in order if name != HEAD)
    seeds = sorted({row["seed"] for row in rows})

    def errors(method: str) -> str:
        found = [
            mean(row["error"] for row in rows if (row["data"], row["method"], row["labels"]) == (_CIFAR, method, count))
            for count in _COUNTS
        ]
        return ", ".join(f"{error:.1f}" for error in found)

    return (
        f"{len(standing.errors)} columns (four data sets, 1 to 100 labels per class), seeds {seeds[0]} to {seeds[-1]}: "
        f"errors of the default over those of the best of {len(order)} methods, chosen in each column on the test "
        f"labels, {standing.mean_ratio(HEAD):.2f} in the geometric mean and at worst {standing.worst_text(HEAD)}; the "
        f"next best method, {best}, {standing.mean_ratio(best):.2f} and {standing.worst_text(best)}; logistic "
        f"regression {standing.mean_ratio('logistic regression'):.2f}. On CIFAR-10 with "
        f"{', '.join(map(str, _COUNTS))} labels per class the default has {errors(HEAD)} % errors, logistic regression "
        f"{errors('logistic regression')}. `python benchmarks/contest images`: {link('contest_images')}."
    )


def rivals(folder: Path) -> str | None:
    """How the models that share nodes out among given sizes stand beside CREPE, as a sentence."""
    columns = ("family", "draw", "method", "unlabelled", "error")
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for row in read_rows(folder / "contest_energies_rivals.csv", columns):
        own = cells.setdefault((row["family"], row["draw"]), {})
        own[row["method"]] = row["error"] + 50 / row["unlabelled"]  # half a node, as in the table above
    if not cells:
        return None
    told = []
    for method, name in (("volume_mbo", "Volume-MBO"), ("cut_ssl", "CutSSL")):
        ratio = [cell[method] / cell[CREPE] for cell in cells.values()]
        lower = sum(value < 1 for value in ratio)
        told.append(f"{name} {exp(mean(map(log, ratio))):.2f} (lower in {lower} of {len(ratio)} cells)")
    return (
        f"Volume-MBO and CutSSL share nodes out among classes of given sizes, by default those of the labels. On one "
        f"draw of the labels in each cell (seed 0) their errors over CREPE's are, in the geometric mean, "
        f"{' and '.join(told)}: {link('contest_energies_rivals')}."
    )


def page_speed(folder: Path) -> str | None:
    """How quick the page of ``label`` is with many items, as a sentence."""
    path = folder / "label_server.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    return (
        f"With {found['items']:,} items, on two cores, an answer and the next item took "
        f"{1000 * found['wait_median']:.0f} ms over HTTP while a solve ran (95th percentile "
        f"{1000 * found['wait_95']:.0f} ms), all labels were new after {found['update_over_propagate']:.2f} times a "
        f"plain call on the prepared graph, and the process took {found['memory_gb']:.1f} GB at most."
    )


def page_coverage(folder: Path) -> str | None:
    """How often the interval of the page holds the error, as a sentence."""
    rows = read_rows(folder / "label_coverage.csv")
    if not rows:
        return None
    told = []
    for count in sorted({row["answers"] for row in rows}):
        own = [row for row in rows if row["answers"] == count and row["low"] != ""]
        held = sum(map(_held, own))
        width = mean(row["high"] - row["low"] for row in own)
        told.append(f"{held} of {len(own)} times after {count} answers ({width:.0f} points wide on average)")
    text = f"The interval held the true error {', '.join(told)}."
    long = [row for row in read_rows(folder / "labelling.csv") if row["method"] == "label" and row.get("low", "") != ""]
    if long:
        held = {data: [_held(row) for row in long if row["data"] == data] for data in {row["data"] for row in long}}
        worst = min(held, key=lambda data: (mean(held[data]), data))
        text += (
            f" In the long sessions above (10 to {max(row['keys'] for row in long)} keys) it did so at "
            f"{sum(map(sum, held.values()))} of {len(long)} stops, at {sum(held[worst])} of {len(held[worst])} on "
            f"{worst}, the worst."
        )
    return text


def _held(row: dict[str, Any]) -> bool:
    """Whether an interval holds the error."""
    return bool(row["low"] <= row["open_error"] <= row["high"])


def standing_sentence(folder: Path) -> str | None:
    """On how many graphs of the development CREPE has the lower mean, and where others have it, as a sentence."""
    found = comparisons(folder)
    if not found:
        return None
    ahead = [one for one in found if one.change < 0]
    behind = [one for one in found if one.change > 0]
    return (
        f"Against the best other model of each of {len(found)} settings (graph × number of labels, chosen on the test "
        f"labels) CREPE has the lower mean error in {len(ahead)}, in {_beyond_chance(ahead)} beyond chance, and the "
        f"higher one in {len(behind)}, in {_beyond_chance(behind)} beyond chance (p < 0.05, uncorrected): "
        f"{', '.join(f'{one.graph}, {one.column} ({one.rival} has {_fewer(one)} fewer)' for one in _worst(behind))}."
    )


def _beyond_chance(found: Sequence[Comparison]) -> int:
    return sum(one.chance is not None and one.chance < 0.05 for one in found)


def _worst(found: Sequence[Comparison]) -> list[Comparison]:
    """The four that are the farthest behind."""
    return sorted(found, key=lambda one: -one.change)[:4]


def _fewer(one: Comparison) -> str:
    """By how much the errors of the rival are below ours."""
    return f"{100 * (1 - 1 / (1 + one.change)):.0f} %"


def _core(stem: str) -> Callable[[Path], str | None]:
    return lambda folder: small_graphs(stem, folder)


#: The parts by name.
MAKERS: dict[str, Any] = {
    "core_few_labels": _core("core_few_labels"),
    "core_no_labels": _core("core_no_labels"),
    "label_choice": label_choice,
    "growth": growth,
    "stages": stages,
    "keys_pressed": keys_pressed,
    "images_sentences": images_sentences,
    "rivals": rivals,
    "page_speed": page_speed,
    "page_coverage": page_coverage,
    "standing": standing_sentence,
}
