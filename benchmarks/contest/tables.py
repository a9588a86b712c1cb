"""The small tables of the README, one per question, made of the CSV files of ``benchmarks/results`` alone.

Every maker takes the folder of the CSV files and gives markdown, or nothing where a file is missing: the page then
stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from shared import certainty_report, family_report, planetoid_report
from shared.certainty_job import HEAD
from shared.certainty_report import named, number
from shared.estimators import ESTIMATORS
from shared.family_job import CREPE, OTHERS
from shared.features_job import OURS
from shared.images_job import HEAD as IMAGES_HEAD
from shared.standing import Standing, p_text
from shared.table import markdown, read_rows

#: Where the results are on the web: links of the README must work wherever it is shown.
_WEB = "https://github.com/tg-crepe/tg-crepe/blob/main/benchmarks/results"

#: How energies and methods are called on the pages, where it is not their name.
_TITLES = {
    "crepe": "**CREPE**",
    OURS: "**CREPE + head**, the default",
    "CREPE + head": "**CREPE + head**, the default",
    "CREPE": "**CREPE**",
    "lgc": "LGC",
    "wnll": "WNLL",
    "poisson": "Poisson",
    "poisson_mbo": "Poisson-MBO",
    "p_laplace": "p-Laplace",
}

#: How many other energies are shown.
_SHOWN = 4


def title(name: str) -> str:
    """What the pages call a method."""
    return _TITLES.get(name, name.replace("_", " "))


def link(stem: str) -> str:
    """A link to a CSV file."""
    return f"[{stem}.csv]({_WEB}/{stem}.csv)"


def _under(text: str, command: str, *stems: str) -> list[str]:
    """The lines below a table: what was measured, the command and the files."""
    return ["", f"{text} `python benchmarks/contest {command}`: {', '.join(map(link, stems))}."]


def _seeds(rows: Sequence[dict[str, Any]]) -> str:
    found = sorted({row["seed"] for row in rows})
    return f"seeds {found[0]:g} to {found[-1]:g}"


def energies(folder: Path) -> str | None:
    """CREPE and the best of the other energies."""
    columns = ("family", "draw", "seed", "method", "unlabelled", "error")
    rows = read_rows(folder / "contest_energies.csv", columns)
    unseen_rows = read_rows(folder / "contest_energies_unseen.csv", columns)
    if not rows or not unseen_rows:
        return None
    results, unseen = (_EnergyResults(own) for own in (rows, unseen_rows))
    others = sorted((name for name in OTHERS if name in results.methods), key=results.geometric_mean)
    body = []
    for name in (CREPE, *others[:_SHOWN]):
        place, far = results.worst(name)[0], unseen.worst(name)[0]
        body.append(
            [
                title(name),
                f"{results.geometric_mean(name):.2f}",
                f"{results.standing.rank(name):.1f}",
                f"{results.ratio(place, name):.1f} ({', '.join(place)})",
                f"{results.won(name)[0]:.0%}".replace("%", " %"),
                p_text(results.standing.chance(name)),
                f"{unseen.geometric_mean(name):.2f} (worst {unseen.ratio(far, name):.1f})",
            ]
        )
    header = ["energy", "errors over those of the best other", f"mean rank of {len(others) + 1}", "worst cell"]
    table = markdown([*header, "cells won", "p", f"{len(unseen.families)} unseen families"], body)
    text = (
        f"{len(results.families)} families of data, {len(results.cells)} cells (family × draw of the labels), "
        f"{_seeds(rows)}; the best other energy is chosen in each cell on the test labels. p: Wilcoxon's over cells, "
        "against CREPE. The unseen families took no part in the development."
    )
    return "\n".join([*table, *_under(text, "energies` and `--unseen", "contest_energies", "contest_energies_unseen")])


class _EnergyResults(family_report.Results):
    """Those of the errors alone."""

    columns = ("error",)


def features(folder: Path) -> str | None:
    """The users' contest: features, pretrained images where they were measured and, as a sentence, graphs."""
    rows = read_rows(folder / "contest_features.csv")
    image_rows = [
        {**row, "draw": f"{row['labels']} per class", "method": OURS if row["method"] == IMAGES_HEAD else row["method"]}
        for row in read_rows(folder / "contest_images.csv")
        if row["method"] in (IMAGES_HEAD, *ESTIMATORS)
    ]
    if not rows:
        return None
    contests = {"features": Standing.of_rows(rows, OURS)}
    if image_rows:
        contests["images"] = Standing.of_rows(image_rows, OURS, data="data")
    body = []
    for name in (OURS, *ESTIMATORS):
        line = [title(name)]
        for own in contests.values():
            known = name in own.methods
            line += [f"{own.mean_ratio(name):.2f}", f"{own.rank(name):.1f}"] if known else ["–", "–"]
            line += [own.worst_text(name), p_text(own.chance(name))] if known else ["–", "–"]
        body.append(line)
    header = [f"{what}: {text}" for what in contests for text in ("errors over the lowest", "rank", "worst cell", "p")]
    families = {family for family, _ in contests["features"].errors}
    text = (
        f"{len(families)} families of tables, images, texts and clouds ({_seeds(rows)}, "
        f"{len(contests['features'].errors)} cells)"
    )
    if image_rows:
        text += (
            f" and {len({data for data, _ in contests['images'].errors})} sets of images through a pretrained network "
            f"({_seeds(image_rows)}, {len(contests['images'].errors)} cells)"
        )
    text += "; p: Wilcoxon's over cells, against the default."
    lines = [
        *markdown(["method", *header], body),
        *_under(text, "` and `".join(contests), *(f"contest_{name}" for name in contests)),
    ]
    sentence = graphs(folder)
    return "\n".join([*lines[:-1], f"{lines[-1]} {sentence or ''}".strip()])


def graphs(folder: Path) -> str | None:
    """How both together do on citation graphs, in a sentence."""
    rows = read_rows(folder / "contest_graphs.csv")
    results = planetoid_report.Results(rows)
    ours, found = planetoid_report.OURS, []
    if ours not in results.methods or len(results.methods) < 2:
        return None
    draw = results.draws[0]
    for graph in results.graphs:
        errors = {name: mean(own.values()) for name in results.methods if (own := results.errors(graph, draw, name))}
        best = min((name for name in errors if name != ours), key=lambda name: errors[name])
        p = planetoid_report.t_test(*results.pairs(graph, draw, best))
        found.append(f"{errors[ours]:.1f} on {graph} (best other: {best} {errors[best]:.1f}, p {p_text(p)})")
    text = f"On citation graphs with {draw} {ours} in turns have an error of {', '.join(found)} %, {_seeds(rows)}."
    return " ".join(_under(text, "graphs", "contest_graphs")[1:])


def labelling(folder: Path) -> str | None:
    """Errors after so many keys, over all data, of the methods that have every session."""
    rows = read_rows(folder / "labelling.csv")
    if not rows:
        return None
    sessions_of: dict[str, set[tuple[str, int]]] = {}
    for row in rows:
        sessions_of.setdefault(row["method"], set()).add((row["data"], row["seed"]))
    whole = max(map(len, sessions_of.values()))
    every, rows = rows, [row for row in rows if len(sessions_of[row["method"]]) == whole]
    # Rows do not say how many items there are; a twentieth of a point on both sides stands for half of one.
    own = [{**row, "draw": f"{row['keys']} keys", "unlabelled": 1000} for row in rows]
    standing = Standing.of_rows(own, "label", data="data")
    stops = sorted({row["keys"] for row in rows})
    body = []
    for name in standing.methods:
        means = [[standing.errors[p][name] for p in standing.places(name, f"{stop} keys")] for stop in stops]
        body.append(
            [
                f"**`tg-crepe {name}`**" if name.startswith("label") else name,
                *(f"{mean(values):.1f}" if values else "–" for values in means),
                f"{standing.mean_ratio(name):.2f}",
                standing.worst_text(name),
                p_text(standing.chance(name)),
            ]
        )
    header = ["error in % after", *(f"{stop} keys" for stop in stops), "over the lowest", "worst cell", "p"]
    data = {name: len({row["seed"] for row in rows if row["data"] == name}) for name, _ in standing.errors}
    sessions = ", ".join(f"{count} of {name}" for name, count in data.items())
    text = f"Simulated sessions: {sessions}; p: Wilcoxon's over data × keys, against `label`."
    text += "".join(_fewer_sessions(every, name) for name in sessions_of if len(sessions_of[name]) < whole)
    return "\n".join([*markdown(header, body), *_under(text, "labelling", "labelling")])


def _fewer_sessions(rows: Sequence[dict[str, Any]], method: str) -> str:
    """A sentence about a method that was played in some sessions alone: beside ``label`` in those, at the end."""
    last = max(row["keys"] for row in rows)
    errors = {
        name: {(row["data"], row["seed"]): row["error"] for row in rows if (row["method"], row["keys"]) == (name, last)}
        for name in ("label", method)
    }
    both = sorted(errors["label"].keys() & errors[method].keys())
    ours, theirs = (mean(errors[name][place] for place in both) for name in ("label", method))
    return f" In {len(both)} of the sessions, after {last} keys: {method} {theirs:.1f}, label {ours:.1f}."


#: Those of the contest of certainty that are shown: ours, and one of every kind.
_SURE = ("CREPE", HEAD, "LGC", "logistic regression", "label spreading")


def certainty(folder: Path) -> str | None:
    """Calibration, intervals and where the errors are."""
    rows = read_rows(folder / "contest_certainty.csv")
    if not rows:
        return None
    results = certainty_report.Results(rows)
    body = []
    for name in (name for name in results.methods if name in _SURE):
        interval = number(results.held(name), ".0f")
        body.append(
            [
                title(name),
                number(results.mean(name, "error")),
                f"{results.mean(name, 'ece'):.1f} ({named(*results.worst(name, 'ece', largest=True), '.0f')})",
                p_text(results.chance(name, "ece")),
                interval if interval == "–" else f"{interval} ({named(*results.least_held(name), '.0f')})",
                f"{number(results.mean(name, 'found'), '.0f')} of {number(results.mean(name, 'most'), '.0f')}",
                number(results.mean(name, "left")),
            ]
        )
    header = ["in %", "error", "calibration error (worst family)", "p", "interval holds the error (worst family)"]
    table = markdown([*header, "errors in the least certain fifth", "error when that fifth is put right"], body)
    text = (
        f"{len({family for family, _ in results.places})} families, {len(results.places)} cells, {_seeds(rows)}; "
        f"{HEAD} is the default of `tg-crepe propagate`. Intervals are meant to hold 90 %, chance finds 20 of 100 "
        "errors. p: Wilcoxon's over cells, against CREPE."
    )
    return "\n".join([*table, *_under(text, "certainty", "contest_certainty")])


def _other_sizes(rows: list[dict[str, Any]]) -> str:
    """What a call takes on the smallest and on the largest graph, beside that of the other package."""

    def middle(part: str, what: str) -> float:
        return median(row["seconds"] for row in rows if (row["part"], row["what"]) == (part, what))

    sizes = ("1,000 rows", "a million nodes")
    if not all(any(row["part"] == size for row in rows) for size in sizes):
        return ""
    (small, other_small), (large, other_large) = (
        [middle(size, what) for what in ("CREPE", "GraphLearning randomwalk")] for size in sizes
    )
    return (
        f" On a given graph of 1,000 rows CREPE takes {small:.2f} seconds and randomwalk {other_small:.2f}, "
        f"on one of a million {large:.0f} and {other_large:.0f}."
    )


#: The rows of the table of times: their part and name in ``end_to_end.csv``, and what the page calls them.
_TIMES = {
    ("features", "knn_graph and CREPE"): "features to labels, CREPE",
    ("features", "scikit-learn LabelSpreading"): "features to labels, scikit-learn's LabelSpreading",
    ("call", "CREPE"): "graph given, CREPE",
    ("call", "CREPE, one more label"): "one more label, CREPE",
    ("call", "GraphLearning randomwalk"): "graph given, GraphLearning's randomwalk",
}


def times(folder: Path) -> str | None:
    """Seconds of 70,000 rows."""
    rows = read_rows(folder / "end_to_end.csv")
    body = []
    for (part, what), name in _TIMES.items():
        own = [row for row in rows if (row["part"], row["what"]) == (part, what)]
        if own:
            processor, wall = ([row[column] for row in own] for column in ("processor", "seconds"))
            notes = [str(row["note"]).split() for row in own]
            error = [float(words[1]) for words in notes if words[:1] == ["error"]]
            body.append(
                [
                    f"**{name}**" if "CREPE" in name else name,
                    f"{median(processor):.1f}",
                    f"{max(processor):.1f}",
                    f"{median(wall):.1f}",
                    f"{max(wall):.1f}",
                    f"{median(error):.1f}" if error else "–",
                ]
            )
    if not body:
        return None
    load = median([row["load"] for row in rows])
    header = ["70,000 rows, 10 classes", "processor seconds", "worst", "seconds on the clock", "worst", "error in %"]
    text = f"Medians and worst of the rounds, at a load of {load:.0f}.{_other_sizes(rows)}"
    return "\n".join([*markdown(header, body), *_under(text, "time", "end_to_end")])
