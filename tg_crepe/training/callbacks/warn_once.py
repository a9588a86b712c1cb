from __future__ import annotations

import re
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tg_crepe.training.callbacks.base import Callback

if TYPE_CHECKING:
    from tg_crepe.training.trainer import HybridTrainer


class WarnOnce(Callback):
    """Lets a warning of the graph or the energy through the first time only, whatever the numbers in it.

    The graph is built anew in every epoch; its recall, or its count of unreached nodes, is worth one line and not 310.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[type[Warning], str]] = set()
        self._caught: list[warnings.WarningMessage] = []
        self._recording = ExitStack()

    def on_labels_begin(self, trainer: HybridTrainer) -> None:
        """Begins to record warnings."""
        self._caught = self._recording.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")

    def on_labels_end(self, trainer: HybridTrainer) -> None:
        """Lets those through that are new."""
        self._recording.close()
        for warning in self._caught:
            key = (warning.category, re.sub(r"\d[\d.,]*", "#", str(warning.message)))
            if key not in self._seen:
                self._seen.add(key)
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        self._caught = []

    def on_train_end(self, trainer: HybridTrainer, error: BaseException | None) -> None:
        """Ends a recording that an error left open."""
        self.on_labels_end(trainer)
