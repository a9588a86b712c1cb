"""What ``benchmarks/parts.py`` writes: the error without every part over that of CREPE, as a table and a heat map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from shared.families import DRAWS
from shared.family_job import CREPE
from shared.family_report import Best, Results
from shared.part_job import PARTS
from shared.picture import draw_ratios
from shared.standing import Place, geometric_mean
from shared.table import markdown, opening

#: Draws that ask for the same of a method: hardly any labels, many, counts that tell the volumes, that mislead, that
#: tell nothing.
GROUPS: dict[str, tuple[str, ...]] = {
    "1–2 per class": ("1 per class", "2 per class"),
    "5–25 per class": ("5 per class", "10 per class", "25 per class"),
    "at random": tuple(draw for draw in DRAWS if draw.endswith("at random")),
    "skewed": ("skewed counts",),
    "chosen": tuple(draw for draw in DRAWS if draw.endswith("chosen")),
}

#: What is left of a row in the table of all runs.
COLUMNS = ("family", "draw", "seed", "method", "labelled", "unlabelled", "error", "class_error", "ece", "cpu_seconds")


class PartResults(Results):
    """Errors by cell and part, averaged over seeds; ratios are to the error of CREPE with all of its parts.

    Args:
        rows (list): The rows of the cells, one per family, draw, seed and part.
    """

    order = tuple(PARTS)
    columns = (*Results.columns, "cpu_seconds")

    def best(self, place: Place, value: str = "error", without: str = "") -> Best:
        """What is compared with: CREPE."""
        return Best(CREPE, self.mean(place, CREPE, value))

    @property
    def parts(self) -> list[str]:
        """The parts that are left out, without the line that has them all."""
        return [name for name in self.methods if name != CREPE]

    def gain(self, part: str, family: str = "", draws: Sequence[str] = DRAWS) -> float:
        """What a part gains: the geometric mean of the ratios without it over cells, perhaps those of one family or of
        some draws; NaN where there is none."""
        return geometric_mean(
            [self.ratio(place, part) for place in self.cells if family in ("", place[0]) and place[1] in draws]
        )

    def average(self, part: str, value: str) -> float:
        """The mean of a column over cells."""
        return float(np.mean([self.mean(place, part, value) for place in self.cells]))


def part_table(results: PartResults) -> list[str]:
    """One line per part."""
    groups = {name: draws for name, draws in GROUPS.items() if set(draws) & set(results.draws)}
    body = []
    for part in results.methods:
        seconds, ece = (f"{results.average(part, value):.2f}" for value in ("cpu_seconds", "ece"))
        if part == CREPE:
            body.append(["CREPE", *["–"] * (3 + len(groups)), seconds, ece])
            continue
        gains = {family: results.gain(part, family) for family in results.families}
        ends = [pick(gains, key=lambda family: gains[family]) for pick in (max, min)]
        body.append(
            [
                part,
                f"{results.gain(part):.3f}",
                *(f"{results.gain(part, draws=draws):.3f}" for draws in groups.values()),
                *(f"{gains[family]:.2f} ({family})" for family in ends),
                seconds,
                ece,
            ]
        )
    ends = ["family that it helps most", "family that it helps least"]
    return markdown(["left out", "all cells", *groups, *ends, "processor seconds", "ECE in %"], body)


def family_table(results: PartResults) -> list[str]:
    """What the heat map shows."""
    body = [[family, *(f"{results.gain(part, family):.2f}" for part in results.parts)] for family in results.families]
    return markdown(["error without it over that of CREPE", *results.parts], body)


def summary(results: PartResults, failed: int = 0) -> str:
    """The whole report."""
    seeds = sorted({row["seed"] for row in results.rows})
    lines = [
        *opening(failed),
        f"{len(results.families)} families, {len(results.cells)} cells (family × draw of labels), seeds {seeds[0]} to "
        f"{seeds[-1]}. The parts were chosen with an eye on these families and on development seeds (100 and above): "
        "the table explains the choice and is no test of it.",
        "",
        "The error of CREPE without a part over that of CREPE with all of them, as a geometric mean over cells: above "
        "1 the part helps, below 1 it hurts. Errors are averaged over seeds before they are divided, with half a node "
        "on both sides (50 / number of unlabelled nodes); a node that no label reaches counts as an error. Seconds and "
        "ECE (15 bins of equal width of the largest probability) are means over cells.",
        "",
        *part_table(results),
        "",
        "- no flow: the re-weighted diffusion decides, without balancing, which is a flow too.",
        "- no pool: what is near is never trusted; left-out labels still set the temperature.",
        "- plain clock: the L-th eigenvalue as labels excite it; every mode counts as one, also that of an island.",
        "- rate not raised: the rate is the formula's, whatever left-out labels say.",
        "- no re-weighting: edges keep their weights.",
        "- no balancing: one flow, whatever volumes its classes end with.",
        "",
        "By family, over its draws:",
        "",
        *family_table(results),
    ]
    return "\n".join(lines) + "\n"


def draw_parts(results: PartResults, path: Path) -> None:
    """Family × part: what every part gains, white where it changes nothing."""
    rows = ["all families", *results.families]
    ratio = np.full((len(rows), len(results.parts)), math.nan)
    for j, part in enumerate(results.parts):
        ratio[:, j] = [results.gain(part), *(results.gain(part, family) for family in results.families)]
    colours = "red: the part helps, blue: it hurts; geometric mean over draws of labels"
    title = f"Error of CREPE without a part over that with all of them\n{colours}"
    draw_ratios(ratio, rows, results.parts, title, path, ruled=[0])
