from tg_crepe.models.crepe.model import CrepePropagation
from tg_crepe.models.crepe.recipe import Recipe

__all__ = ["CrepePropagation", "Recipe"]
