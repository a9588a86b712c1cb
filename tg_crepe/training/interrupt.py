from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any


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


class Interrupt:
    """Turns the first Ctrl-C or SIGTERM inside the block into a request that the loop asks for.

    A second one acts as it did outside the block, so that a user who is in a hurry gets out. In a thread other than the
    main one signals cannot be caught, and nothing is changed.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.signum = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self._SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.signum = signum
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
