from tg_crepe.label.project import Project
from tg_crepe.label.session import Session

__all__ = ["Project", "Session"]
