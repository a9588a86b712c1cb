"""Arguments that commands of many cells have."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shared import machine

#: What may be asked for: the names themselves, or what other options make of them.
Known = Sequence[Any] | Callable[[argparse.Namespace], Sequence[Any]]


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """How many workers there are, and whether anything is run at all."""
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that share the cells")
    parser.add_argument("--plan", action="store_true", help="only say what would be run")
    parser.add_argument("--report", action="store_true", help="only write what is finished")


def check_run_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuses no worker and, where there are ``--seeds``, none of them."""
    if options.workers < 1:
        parser.error(f"--workers must be at least 1, got {options.workers}")
    first, end = getattr(options, "seeds", None) or (0, 1)
    if not 0 <= first < end:
        parser.error(f"--seeds must be FIRST < END, from 0, got {first} {end}")


def parse_table(
    parser: argparse.ArgumentParser, arguments: list[str] | None, seeds: tuple[int, int], **choices: Known
) -> argparse.Namespace:
    """The options of a table, which is written to ``benchmarks/results`` unasked only where it is the whole one.

    Args:
        parser (argparse.ArgumentParser): With the options that the table alone has; where one of these is not at its
            default and makes another table, the caller says so by taking ``out`` back.
        arguments (list, optional): Those of the command line, if not given.
        seeds (tuple): The first seed of the whole table and the one behind its last.
        **choices: What the table is made of, by the name of the option that takes some of it, such as ``families``.

    Returns:
        The options: ``seeds``; every choice as a list, in the order of the table; ``out``, none where the results are
        only printed; those of :func:`add_run_options`.
    """
    parser.add_argument("--seeds", type=int, nargs=2, default=seeds, metavar=("FIRST", "END"))
    for name in choices:
        parser.add_argument(f"--{name}", nargs="+", metavar="NAME", help=f"some of the {name} (default: all)")
    add_run_options(parser)
    parser.add_argument("--out", type=Path, help="folder of the results (default: benchmarks/results, for all of it)")
    options = parser.parse_args(arguments)
    check_run_options(parser, options)
    whole = tuple(options.seeds) == seeds
    for name, known in choices.items():
        names = list(known(options) if callable(known) else known)
        given = getattr(options, name)
        unknown = [value for value in given or () if value not in map(str, names)]
        if unknown:
            parser.error(f"--{name} must be of {', '.join(map(str, names))}, got {', '.join(unknown)}")
        chosen = [value for value in names if given is None or str(value) in given]
        setattr(options, name, chosen)
        whole = whole and chosen == names
    if options.out is None and whole:
        options.out = machine.RESULTS
    return options


def new_parser(text: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a command, as it stands."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
