"""Optional packages: one place that imports them, and the sentence a user reads when one is missing."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module, or raise an :class:`ImportError` that says what to install.

    A package that is installed but cannot be imported (torchvision built for another torch, for one) counts as
    missing, and the message says so: its own traceback would not help anyone.
    """
    hint = f'pip install "tg-crepe[{extra}]"'
    if extra == "ext":
        hint = 'pip install --no-build-isolation "tg-crepe[ext]"'
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"'{package}' is needed here and is not installed: {hint}")
    try:
        return importlib.import_module(module)
    except Exception as error:  # a broken binary raises whatever it likes: OSError, RuntimeError, AttributeError …
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ImportError(
            f"'{package}' is installed but cannot be imported, so it is treated as missing ({reason}). "
            f"Its build probably does not fit the installed torch; reinstall both together: {hint}"
        ) from error


def available(module: str) -> bool:
    """Whether an optional module is installed and can really be imported."""
    try:
        require(module, extra="all")
    except ImportError:
        return False
    return True
