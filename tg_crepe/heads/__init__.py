"""Models on the features alone, beside the graph."""

from tg_crepe.heads.evidence import head_evidence as head_evidence
from tg_crepe.heads.linear import LinearHead as LinearHead

__all__ = ["LinearHead", "head_evidence"]
