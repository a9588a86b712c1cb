"""The paper's Table 1 (error in per cent, mean and deviation of 20 runs), and how a measured cell compares with it."""

from __future__ import annotations

from collections.abc import Mapping

Figure = tuple[float, float]  # mean and deviation

#: The columns of the paper's table.
COLUMNS = ("1 %", "2 %", "5 %", "10 %", "20 %", "30 %")

#: Its rows, by the paper's short names; it does not say which data set they are of.
PAPER: dict[str, dict[str, Figure]] = {
    name: dict(zip(COLUMNS, figures, strict=True))
    for name, figures in {
        "HG": ((18.97, 0.34), (17.96, 0.23), (16.35, 0.10), (15.33, 0.10), (14.48, 0.11), (14.09, 0.08)),
        "LGC": ((18.65, 0.59), (17.81, 0.31), (16.41, 0.12), (15.20, 0.15), (14.33, 0.13), (13.68, 0.06)),
        "LRW": ((19.09, 0.25), (17.84, 0.17), (16.38, 0.06), (15.69, 0.10), (15.35, 0.10), (15.19, 0.07)),
        "SLP": ((78.18, 1.37), (50.16, 3.81), (44.18, 0.37), (25.17, 1.75), (19.03, 1.75), (13.16, 0.11)),
        "WNLL": ((19.68, 0.17), (18.96, 0.28), (17.41, 0.12), (16.15, 0.17), (14.93, 0.13), (14.32, 0.09)),
        "CK": ((31.16, 1.28), (24.29, 0.61), (20.30, 0.11), (18.62, 0.24), (16.54, 0.12), (15.38, 0.07)),
        "PoL": ((20.60, 1.37), (19.89, 3.81), (19.17, 0.37), (19.03, 1.75), (18.82, 0.71), (18.87, 0.41)),
        "Ours": ((17.62, 0.21), (16.05, 0.24), (14.21, 0.08), (13.16, 0.11), (12.31, 0.09), (11.82, 0.04)),
    }.items()
}

#: What the verdicts mean, in the order in which they are tried.
VERDICTS = {
    "reproduced": "the means differ by at most 1 point, or by at most twice the larger of the two deviations",
    "paper cell suspect": "not reproduced, and the paper's cell repeats another one: mean and deviation are those of a "
    "cell elsewhere in the table, or the row shares its deviations with another row in three or more columns, this one "
    "among them",
    "ranking reproduced": "neither of these, and the row stands on the same side of CREPE's, and of the rows next to "
    "it in the paper's column, as in the paper",
    "differs": "none of the above",
}

_POINTS, _DEVIATIONS, _SHARED = 1.0, 2.0, 3


def suspect(row: str, column: str) -> bool:
    """Whether a cell of the paper repeats another one."""
    cell = PAPER[row][column]
    for other, figures in PAPER.items():
        if any(figures[c] == cell for c in COLUMNS if (other, c) != (row, column)):
            return True
        shared = [c for c in COLUMNS if figures[c][1] == PAPER[row][c][1]]
        if other != row and len(shared) >= _SHARED and column in shared:
            return True
    return False


def verdict(row: str, column: str, measured: Mapping[str, Figure]) -> str:
    """How our cell compares with the paper's.

    Args:
        row (str): The paper's name of the row.
        column (str): The column.
        measured (dict): Our mean and deviation of every row in that column, by the paper's name.
    """
    (paper, paper_deviation), (ours, deviation) = PAPER[row][column], measured[row]
    if abs(ours - paper) <= max(_POINTS, _DEVIATIONS * max(deviation, paper_deviation)):
        return "reproduced"
    if suspect(row, column):
        return "paper cell suspect"
    ranked = sorted((name for name in PAPER if name in measured), key=lambda name: PAPER[name][column][0])
    place = ranked.index(row)
    rivals = {*ranked[max(place - 1, 0) : place + 2], *(["Ours"] if "Ours" in measured else [])} - {row}
    same = all((PAPER[r][column][0] < paper) == (measured[r][0] < ours) for r in rivals)
    return "ranking reproduced" if rivals and same else "differs"
