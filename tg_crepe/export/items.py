from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tg_crepe.embed import Source
from tg_crepe.embed.image_folder import ImageFolder
from tg_crepe.runs import RunFolder


@dataclass(frozen=True, eq=False)
class LabelledItems:
    r"""Items with labels, given ones and inferred ones, and what there is to show of them.

    Args:
        ids (list[str]): The user's name of every item.
        label (numpy.ndarray): Numbers of classes of shape :obj:`[num_items]`, :obj:`-1` where no label reaches.
        certainty (numpy.ndarray): Of shape :obj:`[num_items]`, in [0, 1].
        given (numpy.ndarray): Whether the label is the user's own, bool of shape :obj:`[num_items]`.
        class_names (list[str]): The name of every class.
        images (list[Path], optional): The file of every item. (default: :obj:`None`)
        texts (list[str], optional): The text of every item. (default: :obj:`None`)
        folder (str): The name of the folder of the images. (default: :obj:`""`)
    """

    ids: list[str]
    label: np.ndarray
    certainty: np.ndarray
    given: np.ndarray
    class_names: list[str]
    images: list[Path] | None = None
    texts: list[str] | None = None
    folder: str = ""

    def name(self, place: int) -> str | None:
        """The name of an item's class, None where it has none."""
        number = int(self.label[place])
        return None if number < 0 else self.class_names[number]


def items_of_run(run: RunFolder, source: Source | None = None) -> LabelledItems:
    r"""The items of a run.

    Args:
        run (RunFolder): The run, of one class an item.
        source (Source, optional): Its files, which go by the same names. (default: :obj:`None`, names alone)
    """
    result = run.read_result()
    if result.label.ndim != 1:
        raise ValueError(f"'run' must have one class an item, got findings ('{run.path}')")
    ids, names = result.ids.astype(str).tolist(), result.class_names.astype(str).tolist()
    found = LabelledItems(ids, result.label, result.certainty, result.labelled, names)
    if source is None:
        return found
    place_of = {name: place for place, name in enumerate(source.ids)}
    if absent := [name for name in ids if name not in place_of]:
        raise ValueError(f"'{source.name}' has no item for {len(absent)} of the run's, the first is '{absent[0]}'")
    places = [place_of[name] for name in ids]
    facts = (found.ids, found.label, found.certainty, found.given, found.class_names)
    if source.kind == "texts":
        return LabelledItems(*facts, texts=[source.read(place) for place in places])
    if not isinstance(source, ImageFolder):
        raise ValueError(f"'{source.name}' must be a folder of images or a table of texts: other tools open files")
    paths = [source.paths[place].absolute() for place in places]
    return LabelledItems(*facts, images=paths, folder=Path(source.name).resolve().name)
