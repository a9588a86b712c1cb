"""How the pictures of the reports are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_picture(figure: Figure, path: Path, dpi: int = 120) -> None:
    """Writes a PNG under a temporary name and renames."""
    temporary = path.with_suffix(".tmp")
    figure.savefig(temporary, format="png", dpi=dpi)
    temporary.replace(path)
