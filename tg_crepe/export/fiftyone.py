from __future__ import annotations

from typing import Any

from tg_crepe.export.items import LabelledItems


def fiftyone_labels(items: LabelledItems) -> dict[str, Any]:
    r"""The labels of `FiftyOne <https://docs.voxel51.com>`_'s ``FiftyOneImageClassificationDataset``: a class, the
    certainty as its confidence, and whether it was given, by the place of every image.

    .. code-block:: python

        import fiftyone as fo

        fo.Dataset.from_dir(dataset_type=fo.types.FiftyOneImageClassificationDataset, labels_path="labels.json")

    Args:
        items (LabelledItems): Images in files.
    """
    if items.images is None:
        raise ValueError("FiftyOne shows images in files: the items must be those of a folder (--files)")
    labels = {
        path.as_posix(): None
        if items.label[place] < 0
        else {
            "label": int(items.label[place]),
            "confidence": round(float(items.certainty[place]), 4),
            "attributes": {"given": bool(items.given[place])},
        }
        for place, path in enumerate(items.images)
    }
    return {"classes": items.class_names, "labels": labels}
