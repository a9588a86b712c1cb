from __future__ import annotations

from pathlib import Path
from typing import Any

from tg_crepe._files import atomic_file
from tg_crepe._optional import require
from tg_crepe.export.items import LabelledItems


def hugging_face_dataset(items: LabelledItems) -> Any:
    r"""A ``Dataset`` of Hugging Face's `datasets <https://huggingface.co/docs/datasets>`_: columns ``id``, ``image`` or
    ``text``, ``label`` (a ``ClassLabel``, blank where no label reaches), ``certainty`` and ``given``.

    .. code-block:: python

        dataset = hugging_face_dataset(items_of_run(RunFolder.open("run"), open_source("images")))
        dataset.filter(lambda row: row["certainty"] > 0.9).push_to_hub("me/my-data")

    Args:
        items (LabelledItems): The items.
    """
    library = require("datasets", extra="huggingface")
    columns: dict[str, Any] = {"id": items.ids}
    kinds: dict[str, Any] = {"id": library.Value("string")}
    if items.images is not None:
        columns["image"], kinds["image"] = [str(path) for path in items.images], library.Image()
    if items.texts is not None:
        columns["text"], kinds["text"] = items.texts, library.Value("string")
    columns["label"] = [None if number < 0 else int(number) for number in items.label]
    columns["certainty"] = items.certainty.astype(float).tolist()
    columns["given"] = items.given.astype(bool).tolist()
    kinds |= {
        "label": library.ClassLabel(names=items.class_names),
        "certainty": library.Value("float32"),
        "given": library.Value("bool"),
    }
    return library.Dataset.from_dict(columns, features=library.Features(kinds))


def write_parquet(items: LabelledItems, path: Path) -> None:
    """The set as a Parquet file, which ``load_dataset("parquet", data_files=…)`` reads with its classes and images."""
    dataset, bars = hugging_face_dataset(items), require("datasets.utils", extra="huggingface")
    hidden = bars.are_progress_bars_disabled()
    bars.disable_progress_bars()
    try:
        with atomic_file(path) as unfinished:
            dataset.to_parquet(str(unfinished))
    finally:
        if not hidden:
            bars.enable_progress_bars()
