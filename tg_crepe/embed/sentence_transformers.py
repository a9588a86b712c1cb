from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tg_crepe._files import damaged_file
from tg_crepe._optional import require
from tg_crepe.embed.encoder import Encoder
from tg_crepe.embed.hub import HUB, answers, fetch_file, hub_cache
from tg_crepe.embed.packages import PACKAGES
from tg_crepe.embed.weights import FOLDER, missing_model, weights_checksum

#: The file that tells a folder of sentence-transformers from others.
MARK = "modules.json"


class SentenceEncoder(Encoder):
    r"""A model for texts of `sentence-transformers <https://sbert.net>`_.

    .. code-block:: python

        from tg_crepe.embed import get_encoder

        get_encoder("sentence-transformers:all-MiniLM-L6-v2")
        get_encoder("models/all-MiniLM-L6-v2")  # a folder that you have

    Texts that are longer than the model's window are cut, and counted (:meth:`count_too_long`).

    Args:
        name (str): A name of the hub; without an owner that of the library.
        folder (path, optional): A folder instead of a name. (default: :obj:`None`)
        **options: Those of :class:`~tg_crepe.embed.Encoder`.
    """

    kind = "texts"
    batches = True  # texts of like length together, which pays for many at once

    def __init__(self, name: str, folder: Path | None = None, **options: Any) -> None:
        super().__init__(f"sentence-transformers:{name}", **options)
        with _quiet():
            library = require("sentence_transformers", extra="embed-text")
            self._model = self._load(library, folder or self._find(name)).eval()
        self._checksum = weights_checksum(self._model.state_dict())
        window = self._model.max_seq_length
        self.window: int | None = window if isinstance(window, int) else None  # none, or infinite

    def encode(self, items: Sequence[str]) -> Tensor:
        """Texts to rows; those of a length are computed together, whatever their order."""
        with _quiet(), self.autocast():
            rows = self._model.encode(
                list(items), batch_size=self.batch_size, convert_to_tensor=True, show_progress_bar=False
            )
        return rows.float().cpu()

    @torch.no_grad()
    def count_too_long(self, items: Sequence[str]) -> int:
        """How many texts have more tokens than the window."""
        if self.window is None:
            return 0
        with _quiet():
            tokens = self._model.tokenizer(list(items), truncation=False, padding=False)["input_ids"]
        return sum(len(row) > self.window for row in tokens)

    def describe(self) -> dict[str, Any]:
        """The library, the weights and the window."""
        names = ("sentence_transformers", "transformers", "tokenizers")
        return {
            "library": "sentence-transformers",
            "weights": self._checksum,
            "preprocessing": {"window": self.window, "modules": [type(part).__name__ for part in self._model]},
            "versions": {name: require(name, extra="embed-text").__version__ for name in names},
        }

    def _load(self, library: Any, source: str | Path) -> Any:
        """The model of a folder or of the hub; code that comes with a model is never run."""
        place = source if isinstance(source, Path) else fetch_file(source, (MARK,))
        if place is not None:
            _check_parts(place / MARK if place.is_dir() else place)
        try:
            return library.SentenceTransformer(
                str(source), device=str(self.device), trust_remote_code=False, local_files_only=isinstance(source, Path)
            )
        except (ImportError, MemoryError):
            raise
        except Exception as error:  # a damaged folder raises whatever the reader of its first bad byte likes
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise damaged_file(source, f"it is not a whole model of sentence-transformers ({reason[:200]})") from error

    @staticmethod
    def _find(name: str) -> str | Path:
        """The folder of a model, or its name where the hub is to be asked."""
        hub = require("huggingface_hub", extra="embed-text")
        package = PACKAGES.get(f"sentence-transformers:{name.rpartition('/')[2]}")
        root = os.environ.get(FOLDER)
        repo = name if "/" in name else f"sentence-transformers/{name}"
        for place in (Path(root, name), Path(root, repo)) if root else ():
            if (place / MARK).is_file():
                return place
        kept = hub.try_to_load_from_cache(repo, MARK)
        if isinstance(kept, str):
            return Path(kept).parent
        if package is not None and repo.startswith("sentence-transformers/") and package.path is not None:
            return package.path
        if answers(HUB):
            return repo
        ways = ["--model FOLDER", f"a folder '{name}' in one that {FOLDER} names"]
        raise missing_model(
            f"sentence-transformers:{name}",
            f"'{repo}'",
            f"the hub's cache '{hub_cache()}'",
            HUB,
            [*ways, *([f"'pip install {package.pip}'"] if package is not None else [])],
        )


def _check_parts(path: Path) -> None:
    """Raise where a model asks for a class that is not the library's: some versions run code that lies in a folder."""
    try:
        kinds = [str(part["type"]) for part in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged_file(path, "it must list the parts of a model of sentence-transformers") from error
    if other := [kind for kind in kinds if not kind.startswith("sentence_transformers.")]:
        raise damaged_file(path, f"it asks for code of its own ('{other[0]}'), which is not run")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the libraries' own bars and remarks off the screen."""
    loggers = [logging.getLogger(name) for name in ("sentence_transformers", "transformers", "huggingface_hub")]
    before = [logger.level for logger in loggers]
    bars = require("transformers.utils.logging", extra="embed-text")
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
        if shown:
            bars.enable_progress_bar()
