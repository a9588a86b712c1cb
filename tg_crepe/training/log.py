from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

from tg_crepe._files import atomic_file
from tg_crepe._optional import available
from tg_crepe.runs import RunFolder

#: The parts of an epoch whose seconds are logged.
PHASES = ("features", "graph", "energy", "network")

#: A row of the history: numbers and names, None where something was not measured.
Row = dict[str, Any]


class EpochLog:
    r"""The history of a run: one row an epoch, as a line on stderr, in ``metrics.csv`` and ``metrics.jsonl``, and for
    TensorBoard where that is installed.

    Args:
        run (RunFolder, optional): Where the files go. (default: :obj:`None`, nowhere)
        epochs (int): The number of epochs.
        verbose (bool): Whether to write a line an epoch.
        history (list): The rows of epochs before this process.
    """

    def __init__(self, run: RunFolder | None, epochs: int, verbose: bool, history: list[Row]) -> None:
        self.history = history
        self._run = run
        self._epochs = epochs
        self._verbose = verbose
        self._board: Any = None
        if run is None:
            return
        # A kill between the checkpoint and the tables leaves them one row short.
        for row in history[len(run.read_metrics()) if run.has("metrics.csv") else 0 :]:
            run.append_metrics(**row)
        self._write_lines(run)
        if available("torch.utils.tensorboard"):
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(run.path / "tensorboard"), purge_step=len(history) + 1)

    def add(self, row: Row) -> None:
        """Writes the row of an epoch; :attr:`history` has it already."""
        if self._verbose:
            tqdm.write(epoch_line(row, self._epochs), file=sys.stderr)
        if self._run is None:
            return
        self._run.append_metrics(**row)
        self._write_lines(self._run)
        if self._board is not None:
            for name, value in row.items():
                if isinstance(value, float):
                    self._board.add_scalar(name, value, row["epoch"])

    def _write_lines(self, run: RunFolder) -> None:
        with atomic_file(run.path / "metrics.jsonl") as unfinished:
            unfinished.write_text("".join(json.dumps(row) + "\n" for row in self.history), encoding="utf-8")

    def say(self, text: str) -> None:
        """A line on stderr, where lines are wanted."""
        if self._verbose:
            tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        """Closes the files of TensorBoard."""
        if self._board is not None:
            self._board.close()


def epoch_line(row: Mapping[str, Any], epochs: int) -> str:
    """An epoch in words: errors, certainty and the seconds of its parts."""
    parts = [f"epoch {row['epoch']}/{epochs} {row['phase']}", f"loss {row['loss']:.4f}"]
    for name, title in (("error", "error"), ("pseudo_error", "pseudo-label error")):
        if row[name] is not None:
            parts.append(f"{title} {100 * row[name]:.2f} %")
    if row.get("auc") is not None:
        parts.append(f"AUC {row['auc']:.4f}")
    if row["certainty"] is not None:
        parts.append(f"certainty {row['certainty']:.3f}")
    parts.append("seconds: " + ", ".join(f"{phase} {row[f'{phase}_seconds']:.2f}" for phase in PHASES))
    return " | ".join(parts)
