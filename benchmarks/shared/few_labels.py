"""How many labels are enough: the mean error of the default by labels per class, for every kind of data.

Made of ``contest_features.csv`` and, for citation graphs, of ``contest_energies.csv`` alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from shared.families import DRAWS
from shared.family_job import CREPE
from shared.features_job import OURS
from shared.picture import write_picture
from shared.table import markdown, read_rows

#: The families of every kind of data. Digits as counts of pixels or strokes of a pen are tables.
KINDS = {
    "images, pretrained features": ("CIFAR-10 pretrained", "solar cells", "solar cells, 2 classes"),
    "images, simple features": ("digits", "PneumoniaMNIST", "BreastMNIST", "CIFAR-10 patches"),
    "texts": ("TREC",),
    "tables": (
        "segment",
        "wine",
        "breast cancer",
        "iris",
        "optdigits",
        "penbased",
        "letter",
        "satimage",
        "texture",
        "vowel",
        "vehicle",
        "spambase",
        "phoneme",
        "page blocks",
    ),
    "clouds and moons": ("clouds", "two moons"),
    "citation graphs": ("Cora", "CiteSeer", "PubMed"),
}

#: The kind whose graph is given: CREPE of the graph alone is the default there.
GIVEN = "citation graphs"

#: The draws, and how many labels per class each has.
COUNTS = {draw: int(draw.split()[0]) for draw in DRAWS if draw.endswith("per class")}


def default_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of the default with so many labels per class: from features, and on citation graphs."""
    graphs = read_rows(folder / "contest_energies.csv", ("family", "draw", "seed", "method", "error"))
    found = [row for row in read_rows(folder / "contest_features.csv") if row["method"] == OURS]
    found += [row for row in graphs if row["method"] == CREPE and row["family"] in KINDS[GIVEN]]
    return [row for row in found if row["draw"] in COUNTS]


class Curves:
    """The error by labels per class: of every family, the mean over seeds; of every kind, the mean over its families.

    A family that cannot give as many labels as the others would bend the curve of its kind, and is left out.

    Args:
        rows (list): Rows with family, draw, seed and error, of one method each.
    """

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self.rows = list(rows)
        self.draws = [draw for draw in COUNTS if any(row["draw"] == draw for row in rows)]
        self.counts = [COUNTS[draw] for draw in self.draws]
        found: dict[str, dict[str, list[float]]] = {}
        for row in rows:
            found.setdefault(row["family"], {}).setdefault(row["draw"], []).append(row["error"])
        self.left_out = [family for family, own in found.items() if len(own) < len(self.draws)]
        #: The mean error of every family that has all draws, in their order.
        self.families = {
            family: [mean(own[draw]) for draw in self.draws]
            for family, own in found.items()
            if family not in self.left_out
        }
        present = {kind: [f for f in families if f in self.families] for kind, families in KINDS.items()}
        #: The families of every kind that has any.
        self.kinds = {kind: families for kind, families in present.items() if families}

    def seeds(self, given: bool) -> list[int]:
        """The seeds of the families whose graph is given, or of the others."""
        return sorted({row["seed"] for row in self.rows if (row["family"] in KINDS[GIVEN]) == given})

    def mean(self, kind: str) -> list[float]:
        """The mean error of a kind at every number of labels."""
        errors = [self.families[family] for family in self.kinds[kind]]
        return [mean(column) for column in zip(*errors, strict=True)]

    def mark(self) -> str:
        """A text that changes with every number of the picture, and that the picture keeps."""
        text = repr(
            [(kind, f, [round(e, 3) for e in self.families[f]]) for kind, own in self.kinds.items() for f in own]
        )
        return f"few labels {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def curve_table(curves: Curves) -> list[str]:
    """A line per kind of data."""
    body = [
        [kind, str(len(families)), *(f"{error:.1f}" for error in curves.mean(kind))]
        for kind, families in curves.kinds.items()
    ]
    return markdown(["error in %", "data sets", *curves.draws], body)


def draw_kinds(curves: Curves, path: Path) -> None:
    """A panel per kind: its mean error against the labels per class, and every family as a thin line."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    from tg_crepe.viz import GREY, PALETTE

    columns = min(len(curves.kinds), 3)
    rows = -(-len(curves.kinds) // columns)
    figure = Figure(figsize=(3 * columns, 2.5 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes, (kind, families) in zip(panels.ravel(), curves.kinds.items(), strict=False):
        for family in families:
            axes.plot(curves.counts, curves.families[family], color=GREY, linewidth=0.8)
        axes.plot(curves.counts, curves.mean(kind), color=PALETTE[0], linewidth=2.4, marker="o", markersize=5)
        axes.set_xscale("log")
        axes.set_xticks(curves.counts, [str(count) for count in curves.counts])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(f"{kind} ({len(families)})", fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels.ravel()[len(curves.kinds) :]:
        axes.set_visible(False)
    panels[0, 0].set_ylim(bottom=0)  # shared, so only now
    figure.supxlabel("labels per class", fontsize=10)
    figure.supylabel("error in %", fontsize=10)
    write_picture(figure, path, dpi=110, mark=curves.mark())
