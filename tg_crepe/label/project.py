from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tg_crepe import __version__
from tg_crepe._files import atomic_file, check_unique, damaged_file, read_arrays, read_text
from tg_crepe.label.items import Items
from tg_crepe.label.prepared import Prepared

#: The layout of the folder; another one is refused.
FORMAT = 1

_INFO, _FEATURES, _GRAPH, DATABASE, LOCK = "project.json", "features.npz", "graph.npz", "labels.sqlite", "lock"


@dataclass(frozen=True)
class Project:
    r"""A folder with all that labelling needs.

    .. code-block:: text

        project.json    what is labelled, and with which settings      features.npz    x, ids
        labels.sqlite   all that was answered, one row each             graph.npz       edges, weights, map

    Args:
        folder (Path): The folder.
        info (dict): What ``project.json`` says.
        ids (list of str): The names of the items.
        x (numpy.ndarray): Their features, float32 of shape :obj:`[num_items, num_features]`.
        prepared (Prepared): The graph.
    """

    folder: Path
    info: dict[str, Any]
    ids: list[str]
    x: np.ndarray
    prepared: Prepared

    @staticmethod
    def is_one(folder: Path) -> bool:
        """Whether a path is the folder of a project."""
        return (folder / _INFO).is_file()

    @classmethod
    def create(
        cls,
        folder: Path,
        x: np.ndarray,
        ids: Sequence[str],
        settings: dict[str, Any],
        show: str | None = None,
        text: str | None = None,
    ) -> Project:
        r"""Makes a project in a folder that is empty or not there. What was begun and killed is begun again.

        Args:
            folder (Path): The folder.
            x (numpy.ndarray): Features, of shape :obj:`[num_items, num_features]`.
            ids (sequence of str): The names of the items.
            settings (dict): What it was made of: ``source``, ``k``, ``metric``, …
            show (str, optional): The folder or table with what the page shows. (default: :obj:`None`, names alone)
            text (str, optional): The column of the table with the texts. (default: :obj:`None`)
        """
        if len(x) < 3:
            raise ValueError(f"'SOURCE' must hold at least 3 items, got {len(x)}")
        check_unique(folder, "the id", list(ids))
        check_free(folder)
        folder.mkdir(parents=True, exist_ok=True)
        prepared = Prepared.make(x, int(settings["k"]), str(settings["metric"]))
        with atomic_file(folder / _FEATURES) as unfinished, unfinished.open("wb") as file:
            np.savez(file, x=x, ids=np.array(list(ids), dtype=np.str_))
        prepared.save(folder / _GRAPH)
        info = {
            "program": "tg-crepe",
            "kind": "labels",
            "format": FORMAT,
            "version": __version__,
            "items": len(x),
            "show": show,
            "text": text,
            "settings": settings,
        }
        with atomic_file(folder / _INFO) as unfinished:  # the last file: with it the project is whole
            unfinished.write_text(json.dumps(info, indent=2, default=str, ensure_ascii=False) + "\n", encoding="utf-8")
        return cls(folder, info, list(ids), x, prepared)

    @classmethod
    def open(cls, folder: Path) -> Project:
        """A project that is there; the error says what is wrong with a folder that is none."""
        if not cls.is_one(folder):
            raise FileNotFoundError(f"'{folder}' is no project of tg-crepe label: '{_INFO}' is missing")
        path = folder / _INFO
        try:
            info = json.loads(read_text(path))
        except json.JSONDecodeError as error:
            raise damaged_file(path, f"it is not whole JSON ({error.msg} in line {error.lineno})") from error
        if not isinstance(info, dict) or info.get("program") != "tg-crepe" or info.get("kind") != "labels":
            raise damaged_file(path, "it was not written by tg-crepe label")
        if info.get("format") != FORMAT:
            raise damaged_file(path, f"its format is {info.get('format')!r}, this version reads {FORMAT}")
        for name in (_FEATURES, _GRAPH):
            if not (folder / name).is_file():
                raise FileNotFoundError(f"'{folder}' is not a whole project: '{name}' is missing")
        arrays = read_arrays(folder / _FEATURES, ("x", "ids"))
        x, ids = arrays["x"], [str(name) for name in arrays["ids"]]
        if x.ndim != 2 or len(x) != len(ids):
            raise damaged_file(folder / _FEATURES, f"it must hold a row and a name for every item, got {len(ids)}")
        return cls(folder, info, ids, x, Prepared.load(folder / _GRAPH, len(ids)))

    def open_items(self) -> Items:
        """What the page shows of the items."""
        from tg_crepe.embed.source import open_source

        show = self.info.get("show")
        if show is None:
            return Items(self.ids)
        path = Path(show)
        return Items(self.ids, open_source(path, None, self.info.get("text")), path if path.is_dir() else path.parent)

    @property
    def source(self) -> str:
        """What the project was made of."""
        return str(self.info["settings"]["source"])


def check_free(folder: Path) -> None:
    """Raise unless a project may be made in ``folder``: not there, empty, or one that was begun and is not whole."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"'{folder}' is a file, not a folder")
    ours = {_FEATURES, _GRAPH, LOCK}
    others = [entry.name for entry in folder.iterdir() if entry.name not in ours] if folder.exists() else []
    others = [name for name in others if not (name.startswith(".") and name.endswith(".tmp"))]
    if others:
        raise FileExistsError(f"'{folder}' is not empty and no project of tg-crepe label; it is left alone")
