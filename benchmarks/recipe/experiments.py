"""The experiments of ``recipe``: which rows stand in which table, on which cases."""

from __future__ import annotations

from dataclasses import dataclass

from recipe.cases import Case
from recipe.job import make_cell
from shared.grid import Cell
from shared.splits import Split

#: The first split, and how many there are.
FIRST_SEED, SPLITS = 100, 4

#: About the processor seconds of the whole recipe, by data set.
SECONDS = {"digits": 1.0, "two_moons": 1.0, "pneumonia": 0.3, "breast": 0.1, "cora": 0.5, "citeseer": 0.5}
SECONDS |= {"pubmed": 0.5, "fashion": 2.0}


def _counts(data: str, *counts: int, **more: float) -> list[Case]:
    return [Case(data, Split("count", count), **more) for count in counts]  # type: ignore[arg-type]


def _shares(data: str, *shares: float) -> list[Case]:
    return [Case(data, Split("share", share)) for share in shares]


#: Every data set of the recipe.
ALL_CASES = [
    *_counts("two_moons", 1, noise=0.1),
    *_counts("two_moons", 1, noise=0.15),
    *_counts("digits", 1, 2, 5, 10),
    *_shares("pneumonia", 0.01, 0.05, 0.2),
    *_shares("breast", 0.05, 0.2),
    *_counts("cora", 20),
    *_counts("citeseer", 20),
    *_counts("pubmed", 20),
    *_counts("fashion", 5),
    *_shares("fashion", 0.01, 0.1),
]

#: One of each kind, where a run is quick and few splits say something.
TYPICAL = [
    *_counts("two_moons", 5, noise=0.15),
    *_counts("digits", 2),
    *_shares("pneumonia", 0.05),
    *_counts("cora", 20),
    *_shares("fashion", 0.1),
]

PARTS = [
    "CREPE", "no flow, balanced", "no flow", "start alone", "no ratio term", "no coupling", "no re-weighting",
    "no class prior", "counts not believed", "no balancing", "no restarts of two classes", "the paper's scheme",
]  # fmt: skip

#: The values of every constant in the order of its axis, by the name of their variant.
PANELS: dict[str, dict[str, str]] = {
    "start": {"diffusion": "CREPE", "at x/4": "start at x/4", "at 4x": "start at 4x", "LGC 0.99": "start LGC 0.99",
              "Poisson": "start Poisson", "labels": "start labels"},
    "H": {"degree quantile": "CREPE", "degree median": "H = degree_median", "median": "H = median", "ℓ1": "H = l1",
          "ℓ2": "H = l2"},
    "ε": {"0.01": "ε = 0.01", "0.1": "ε = 0.1", "0.3": "ε = 0.3", "1": "CREPE", "3": "ε = 3", "10": "ε = 10"},
    "factor in x": {"0.25": "factor 0.25", "0.5": "factor 0.5", "0.7": "factor 0.7", "1": "CREPE", "1.5": "factor 1.5",
                    "2.5": "factor 2.5"},
    "largest rate": {"0.1": "largest rate 0.1", "0.2": "largest rate 0.2", "0.4": "CREPE", "0.8": "largest rate 0.8",
                     "1.6": "largest rate 1.6"},
    "exponent of p": {"0": "exponent 0", "¼": "exponent 0.25", "½": "CREPE", "1": "exponent 1"},
    "κ": {"0.1": "κ = 0.1", "0.2": "κ = 0.2", "0.4": "CREPE", "0.8": "κ = 0.8", "1": "κ = 1", "1.6": "κ = 1.6",
          "2.5": "κ = 2.5"},
    "class prior": {"labels": "CREPE", "graph alone": "counts not believed", "uniform": "no class prior",
                    "truth": "true volumes"},
    "labels imagined per class": {"0": "pseudo-count 0", "1": "pseudo-count 1", "5": "CREPE",
                                  "20": "pseudo-count 20"},
    "rounds of re-weighting": {"0": "no re-weighting", "1": "rounds 1", "2": "CREPE", "3": "rounds 3",
                               "4": "rounds 4"},
    "power of re-weighting": {"1": "power 1", "2": "power 2", "4": "CREPE", "8": "power 8"},
    "inner iterations": {"5": "inner 5", "10": "CREPE", "20": "inner 20", "40": "inner 40"},
    "steps": {"3": "steps 3", "6": "CREPE", "12": "steps 12", "24": "steps 24"},
    "runs from balanced labels": {"0": "no balancing", "1": "balancing 1", "2": "CREPE", "3": "balancing 3",
                                  "6": "balancing 6"},
    "labels per class that free equal volumes": {"10": "binding p = 10", "25": "binding p = 25", "50": "CREPE",
                                                 "100": "binding p = 100", "200": "binding p = 200"},
    "error of found volumes": {"0": "volume error 0", "0.1": "volume error 0.1", "0.5": "CREPE",
                               "2": "volume error 2"},
    "scatter of found volumes": {"0": "volume scatter 0", "0.5": "volume scatter 0.5", "2": "CREPE",
                                 "8": "volume scatter 8"},
    "scores beside volumes": {"0.5": "shrinkage 0.5", "0.75": "CREPE", "1": "shrinkage 1", "1.5": "shrinkage 1.5"},
    "lazy steps": {"1": "lazy steps 1", "3": "lazy steps 3", "10": "CREPE", "30": "lazy steps 30"},
    "not taken": {"recipe": "CREPE", "exact volumes": "exact volumes", "sources d^-½": "sources d^-½",
                  "λ_L with islands": "λ_L with islands"},
}  # fmt: skip

RIVALS = ["CREPE", "no flow", "the paper's scheme", "LGC, α = 0.99", "Poisson"]

HARD = [
    *[Case("fashion", Split("count", 20), twist="1 label beside 200")],
    *[Case("pneumonia", Split("count", 20), twist="1 label beside 200")],
    *[Case("fashion", Split("share", 0.05), twist=twist) for twist in ("", "rare class", "5 % wrong", "20 % wrong")],
    *[Case("digits", Split("share", 0.1), twist=twist) for twist in ("", "rare class", "5 % wrong", "20 % wrong")],
    *[Case("digits", Split("count", 5), twist=twist) for twist in ("", "two halves", "labelled islands")],
    *[Case("cora", Split("count", 20), twist=twist) for twist in ("", "5 % wrong", "20 % wrong", "labelled islands")],
    *[Case("digits", Split("count", 5), metric="cosine")],
    *[Case("pneumonia", Split("share", 0.05), metric=metric) for metric in ("euclidean", "cosine")],
]

#: What must change nothing.
UNCHANGED = [
    Case(case.data, case.split, twist=twist)
    for case in (*_counts("digits", 5), *_counts("cora", 20), *_shares("pneumonia", 0.05), *_shares("fashion", 0.1))
    for twist in ("weights × 1000", "unlabelled islands")
]


@dataclass(frozen=True)
class Experiment:
    """A table: every row on every case."""

    cases: list[Case]
    rows: list[str]


EXPERIMENTS = {
    "flow": Experiment(
        [
            *_counts("digits", 2),
            *_counts("two_moons", 1, noise=0.1),
            *_counts("two_moons", 1, noise=0.15),
            *_shares("pneumonia", 0.05),
            *_counts("cora", 20),
            *_shares("fashion", 0.01, 0.1),
        ],
        ["along the flow"],
    ),
    "ablation": Experiment(ALL_CASES, PARTS),
    "robustness": Experiment(HARD, [*RIVALS, "harmonic", "labels may be outvoted"]),
    "unchanged": Experiment(UNCHANGED, ["CREPE"]),
    "stability": Experiment(ALL_CASES, ["CREPE", "inner 20", "steps 12"]),
    "effects": Experiment(TYPICAL, list(dict.fromkeys(v for panel in PANELS.values() for v in panel.values()))),
    "labels": Experiment(
        [
            *_counts("digits", 1, 2, 5, 10, 20, 50),
            *_counts("cora", 1, 2, 5, 10, 20, 50),
            *_counts("pneumonia", 1, 2, 5, 10, 20, 50),
            *_counts("fashion", 1, 2, 5, 10, 20, 50),
        ],
        RIVALS,
    ),
    "k": Experiment(
        [
            Case(data, split, k)
            for data, split in (
                ("digits", Split("count", 5)),
                ("pneumonia", Split("share", 0.05)),
                ("fashion", Split("share", 0.1)),
            )
            for k in (5, 10, 20, 30, 50)
        ],
        RIVALS,
    ),
}


def make_cells(names: list[str], seeds: range, data: list[str] | None) -> dict[str, list[Cell]]:
    """The cells of every experiment, split by split; what two experiments share is one cell."""
    found = {}
    for name in names:
        experiment = EXPERIMENTS[name]
        cases = [case for case in experiment.cases if data is None or case.data in data]
        found[name] = [
            make_cell(case, row, seed, SECONDS[case.data])
            for seed in seeds
            for case in cases
            for row in experiment.rows
        ]
    return found
