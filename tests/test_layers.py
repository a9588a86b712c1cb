"""A folder imports only from those to its left: what the architecture page draws."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tg_crepe

ROOT = Path(tg_crepe.__file__).parent

#: From left to right. A name in the same row as another may not be imported by it either.
LAYERS = (
    ("_unfinished",),
    ("typing", "warnings", "_checks", "_files", "_html", "_optional", "_memory", "_threads", "_waiting"),
    ("_labels",),
    ("graph",),
    ("energy",),
    ("solvers",),
    ("inference",),
    ("models",),
    ("heads",),
    ("active",),
    ("runs",),
    ("nn", "datasets"),
    ("embed",),
    ("training",),
    ("distributed", "sklearn", "viz"),
    ("report", "export"),
    ("label",),
    ("cli",),
)
PLACE = {name: number for number, names in enumerate(LAYERS) for name in names}


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> set[str]:
    """The layers that a file imports from, inside functions too; imports for type checkers alone do not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tg_crepe."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tg_crepe.")}
    return names


FILES = [path for path in sorted(ROOT.rglob("*.py")) if layer_of(path) not in ("__init__", "__main__")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_to_the_left(path):
    here = layer_of(path)
    wrong = {name for name in imported_layers(path) if name != here and PLACE[name] >= PLACE[here]}
    assert not wrong, f"{path.name} ({here}) imports from {sorted(wrong)}"
