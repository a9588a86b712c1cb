from tg_crepe.active.curve import error_curve
from tg_crepe.active.label_next import STRATEGIES, label_next
from tg_crepe.active.loop import LabelLoop

__all__ = ["STRATEGIES", "LabelLoop", "error_curve", "label_next"]
