"""The rows of ``benchmarks/parts.py``, CREPE with one of its parts left out at a time, and what a worker does."""

from __future__ import annotations

import functools
from pathlib import Path

from shared import family_job
from shared.family_job import CREPE, Method
from shared.grid import Cell, Job
from shared.without_flow import without_flow
from shared.without_parts import PlainClock, RateNotRaised

from tg_crepe import CrepePropagation, Recipe

#: A prior that no number of labels overcomes.
_NEVER = 1e9


def _without(**changes: object) -> Method:
    """CREPE with other constants."""
    return Method(functools.partial(CrepePropagation, Recipe(**changes)), 0.35, ours=True)  # type: ignore[arg-type]


#: CREPE and what is left of it without a part. The first two are called and made as in ``contest energies``: what that
#: has measured is not measured again.
PARTS: dict[str, Method] = {
    CREPE: Method(CrepePropagation, 0.35, ours=True),
    "no flow": Method(without_flow, 0.2, ours=True),
    "no pool": _without(pool_prior=_NEVER),
    "plain clock": Method(PlainClock, 0.35, ours=True),
    "rate not raised": Method(RateNotRaised, 0.35, ours=True),
    "no re-weighting": _without(reweight_rounds=0),
    "no balancing": _without(balancing_rounds=0),
}


def make_cell(path: Path, draw: str, seed: int) -> Cell:
    """The cell of a family, a draw and a seed, on which CREPE is run with and without every part."""
    return family_job.make_cell(path, draw, seed, tuple(PARTS), PARTS)


def make_job(folder: Path, paths: tuple[tuple[str, Path], ...], threads: int) -> Job:
    """The job of a worker; the arguments are those of :func:`shared.family_job.make_job`."""
    return family_job.make_job(tuple(PARTS), folder, paths, threads, PARTS)
