"""What code an answer depends on, as a short text: it changes with the code, not with comments or docstrings."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code(source: str) -> str:
    """The syntax tree of a source without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


@functools.cache
def fingerprint(*modules: str) -> str:
    """A hash of the code of modules and of everything of the same packages that they import, directly or not."""
    packages = {module.partition(".")[0] for module in modules}
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = _path(name)
        if path is None:
            continue
        source = path.read_text(encoding="utf-8")
        found[name] = code(source)
        waiting += [other for other in _imports(source) if other.partition(".")[0] in packages]
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:12]


def fingerprint_of(*parts: Callable[..., object]) -> str:
    """A hash of the code of functions or classes alone, for a module whose other parts change no answer."""
    text = "".join(inspect.getsource(part) for part in parts)
    return hashlib.sha256(code(text).encode()).hexdigest()[:12]


def _path(module: str) -> Path | None:
    """The file of a module, or none where the name is that of something inside one."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # its parent is a module, not a package
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def _imports(source: str) -> Iterable[str]:
    """The names that may be modules in the import statements of a source, wherever they stand."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
