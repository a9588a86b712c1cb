from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from tg_crepe.training.sampler import MixedBatch
    from tg_crepe.training.trainer import HybridTrainer


class Callback:
    r"""What happens at named moments of training; every method does nothing unless a callback overrides it.

    .. code-block:: text

        on_train_begin
            on_epoch_begin
                on_labels_begin, on_labels_end      where new pseudo-labels are due
                on_batch_begin, on_batch_end        per step of the network
            on_epoch_end
            on_labels_begin, on_labels_end          the pseudo-labels of the last model
        on_train_end                                in reverse order of the callbacks

    Each gets the trainer, whose public attributes are the state of the run: :obj:`epoch` (from 1), :obj:`history`,
    :obj:`data`, :obj:`model`, :obj:`config`, :obj:`final`, and :obj:`run`, the
    :class:`~tg_crepe.runs.RunFolder` of the main process. With several processes every one has its callbacks.

    .. code-block:: python

        from tg_crepe.training import Callback

        class CertaintyCurve(Callback):
            def __init__(self):
                self.certainty = []

            def on_labels_end(self, trainer):
                self.certainty.append(float(trainer.data.certainty.mean()))
    """

    def on_train_begin(self, trainer: HybridTrainer) -> None:
        """Before the first epoch, or before the first one after a checkpoint."""

    def on_epoch_begin(self, trainer: HybridTrainer) -> None:
        """Before an epoch."""

    def on_labels_begin(self, trainer: HybridTrainer) -> None:
        """Before the source of pseudo-labels is asked; :obj:`trainer.data` holds what it reads of the network."""

    def on_labels_end(self, trainer: HybridTrainer) -> None:
        """After new pseudo-labels, which :obj:`trainer.data` holds on every process."""

    def on_batch_begin(self, trainer: HybridTrainer, batch: MixedBatch) -> None:
        """Before a step of the network."""

    def on_batch_end(self, trainer: HybridTrainer, batch: MixedBatch, loss: Tensor) -> None:
        """After a step of the network, with its loss on the device."""

    def on_epoch_end(self, trainer: HybridTrainer) -> None:
        """After an epoch; its row is the last one of :obj:`trainer.history`."""

    def on_train_end(self, trainer: HybridTrainer, error: BaseException | None) -> None:
        """After training, also where ``error`` ended it; without one :obj:`trainer.final` holds the last metrics."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps under the name of the class: tensors, numbers, text."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes up what :meth:`state_dict` gave, before the moments after :meth:`on_train_begin`."""
