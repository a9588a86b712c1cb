from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tg_crepe.training.callbacks.base import Callback
from tg_crepe.training.processes import largest

if TYPE_CHECKING:
    from tg_crepe.training.sampler import MixedBatch
    from tg_crepe.training.trainer import HybridTrainer

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class TrainingInterrupted(KeyboardInterrupt):
    r"""Training was asked to stop and has left a checkpoint behind.

    Args:
        signum (int): The signal that asked for it.
        checkpoint (Path, optional): Where training can go on from; :obj:`None` without a run folder.
    """

    def __init__(self, signum: int, checkpoint: Path | None) -> None:
        where = "there is no run folder, so nothing was kept" if checkpoint is None else f"resume from '{checkpoint}'"
        super().__init__(f"training was interrupted by {signal.Signals(signum).name}; {where}")
        self.signum = signum
        self.checkpoint = checkpoint


class Interrupt(Callback):
    """Turns the first Ctrl-C or SIGTERM into :class:`TrainingInterrupted` between two steps, where nothing is lost.

    A second one acts as it did outside training, so that a user who is in a hurry gets out. In a thread other than the
    main one signals cannot be caught, and nothing is changed.
    """

    def __init__(self) -> None:
        self._signum = 0
        self._before: dict[int, Any] = {}

    def on_train_begin(self, trainer: HybridTrainer) -> None:
        """Begins to catch signals."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}

    def on_epoch_begin(self, trainer: HybridTrainer, batch: MixedBatch | None = None) -> None:
        """Raise where any process was asked to stop: all of them leave at the same step."""
        signum = largest(trainer.accelerator, self._signum)
        if signum:
            raise TrainingInterrupted(signum, trainer.checkpoint)

    on_labels_begin = on_labels_end = on_batch_begin = on_epoch_begin

    def on_train_end(self, trainer: HybridTrainer, error: BaseException | None) -> None:
        """Leaves signals to what caught them before."""
        self._restore()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self._signum = signum
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
