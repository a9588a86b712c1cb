"""Labels of a run in the formats of other tools. One file per tool."""

from tg_crepe.export.fiftyone import fiftyone_labels
from tg_crepe.export.hugging_face import hugging_face_dataset
from tg_crepe.export.items import LabelledItems, items_of_run
from tg_crepe.export.label_studio import label_studio_config, label_studio_tasks

__all__ = [
    "LabelledItems",
    "fiftyone_labels",
    "hugging_face_dataset",
    "items_of_run",
    "label_studio_config",
    "label_studio_tasks",
]
