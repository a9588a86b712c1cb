from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from tg_crepe._files import atomic_file
from tg_crepe._optional import available
from tg_crepe.training.callbacks.base import Callback

if TYPE_CHECKING:
    from tg_crepe.training.trainer import HybridTrainer

#: The parts of an epoch whose seconds are logged.
PHASES = ("features", "graph", "energy", "network")


class EpochLog(Callback):
    r"""Writes the history of a run, one row per epoch: as a line on stderr, in ``metrics.csv`` and ``metrics.jsonl`` of
    the run folder, and for TensorBoard where that is installed.

    Args:
        verbose (bool): Whether to write lines.
    """

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._board: Any = None

    def on_train_begin(self, trainer: HybridTrainer) -> None:
        """Brings the tables up to the checkpoint."""
        self._verbose = self._verbose and trainer.accelerator.is_main_process
        if trainer.epoch:
            self._say(f"resuming after epoch {trainer.epoch}")
        run, history = trainer.run, trainer.history
        if run is None:
            return
        # A kill between the checkpoint and the tables leaves them one row short.
        for row in history[len(run.read_metrics()) if run.has("metrics.csv") else 0 :]:
            run.append_metrics(**row)
        self._write_lines(trainer)
        if available("torch.utils.tensorboard"):
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(run.path / "tensorboard"), purge_step=len(history) + 1)

    def on_epoch_end(self, trainer: HybridTrainer) -> None:
        """Writes the row of the epoch."""
        row = trainer.history[-1]
        self._say(epoch_line(row, trainer.config.epochs))
        if trainer.run is None:
            return
        trainer.run.append_metrics(**row)
        self._write_lines(trainer)
        if self._board is not None:
            for name, value in row.items():
                if isinstance(value, float):
                    self._board.add_scalar(name, value, row["epoch"])

    def on_train_end(self, trainer: HybridTrainer, error: BaseException | None) -> None:
        """Closes the files of TensorBoard."""
        if self._board is not None:
            self._board.close()

    def _write_lines(self, trainer: HybridTrainer) -> None:
        assert trainer.run is not None
        with atomic_file(trainer.run.path / "metrics.jsonl") as unfinished:
            unfinished.write_text("".join(json.dumps(row) + "\n" for row in trainer.history), encoding="utf-8")

    def _say(self, text: str) -> None:
        if self._verbose:
            tqdm.write(text, file=sys.stderr)


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
