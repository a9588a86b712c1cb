"""The contest: one command per question, each with a table (CSV), a text and a figure in ``benchmarks/results``.

    python benchmarks/contest QUESTION [options]         # options: python benchmarks/contest QUESTION --help
    python benchmarks/pages.py                           # puts what was measured into README.md and docs/*.md

All of them may be stopped at any time and go on where they were; ``--seeds 100 102 --out some/folder`` tries them on
other draws than those that are reported.
"""

from __future__ import annotations

import sys
from importlib import import_module

#: What is asked, by name: the module whose ``main`` answers, and the question.
QUESTIONS = {
    "energies": ("contest.energies", "energy against energy, on many families of data"),
    "features": ("contest.features", "from features to labels, beside what people use on features"),
    "images": ("contest.images", "the same on images, through a pretrained network"),
    "graphs": ("contest.graphs", "features and a graph, beside graph networks"),
    "labelling": ("labelling", "error against keys pressed"),
    "certainty": ("contest.certainty", "is it as sure as it is right, and do the errors lie where it is not sure?"),
    "time": ("end_to_end", "seconds from features to labels, for a call, and for one more label"),
}


def main() -> None:
    """Hands the other arguments to the command of the question."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in ("-h", "--help"):
        print(f"{__doc__}\n{listing()}")
        return
    if name not in QUESTIONS:
        sys.exit(f"QUESTION must be one of these, got {name or 'none'}:\n{listing()}")
    sys.argv[:2] = [f"contest {name}"]
    import_module(QUESTIONS[name][0]).main()


def listing() -> str:
    """The questions, a line each."""
    return "\n".join(f"  {name:<10} {text}" for name, (_, text) in QUESTIONS.items())
