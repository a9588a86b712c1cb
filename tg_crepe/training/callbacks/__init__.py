from tg_crepe.training.callbacks.base import Callback
from tg_crepe.training.callbacks.checkpoint import Checkpoint
from tg_crepe.training.callbacks.epoch_log import EpochLog
from tg_crepe.training.callbacks.hold_out import HoldOut
from tg_crepe.training.callbacks.interrupt import Interrupt, TrainingInterrupted
from tg_crepe.training.callbacks.result_files import ResultFiles
from tg_crepe.training.callbacks.warn_once import WarnOnce

__all__ = [
    "Callback",
    "Checkpoint",
    "EpochLog",
    "HoldOut",
    "Interrupt",
    "ResultFiles",
    "TrainingInterrupted",
    "WarnOnce",
]
