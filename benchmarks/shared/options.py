"""Arguments that every command of many cells has."""

from __future__ import annotations

import argparse
import os


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
