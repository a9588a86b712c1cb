from tg_crepe.models.crepe.model import CrepePropagation

__all__ = ["CrepePropagation"]
