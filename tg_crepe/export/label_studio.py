from __future__ import annotations

from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from tg_crepe import __version__
from tg_crepe.export.items import LabelledItems


def label_studio_tasks(items: LabelledItems, url: str | None = None) -> list[dict[str, Any]]:
    r"""Tasks of `Label Studio <https://labelstud.io/guide/predictions>`_: given labels as annotations, inferred ones as
    predictions whose score is the certainty, so that a person begins with the doubtful ones.

    Args:
        items (LabelledItems): The items.
        url (str, optional): What stands before the id of an image to make an address of it. (default: :obj:`None`,
            Label Studio's own of local files, whose root is the folder that the images' folder lies in)
    """
    field = "text" if items.texts is not None else "image" if items.images is not None else "id"
    before = f"/data/local-files/?d={quote(items.folder)}/" if url is None else url
    tasks = []
    for place, name in enumerate(items.ids):
        shown = items.texts[place] if items.texts is not None else before + quote(name) if field == "image" else name
        task: dict[str, Any] = {"data": {"id": name, field: shown}}
        label = items.name(place)
        if label is not None:
            choice = {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [label]}}
            if items.given[place]:
                task["annotations"] = [{"result": [choice]}]
            else:
                score = round(float(items.certainty[place]), 4)
                task["predictions"] = [{"model_version": f"tg-crepe {__version__}", "score": score, "result": [choice]}]
        tasks.append(task)
    return tasks


def label_studio_config(items: LabelledItems) -> str:
    """The labelling interface that goes with the tasks: the item and a choice of its classes."""
    tag, value = ("Image", "$image") if items.images is not None else ("Text", "$text" if items.texts else "$id")
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in items.class_names)
    return (
        f'<View><{tag} name="item" value="{value}"/>'
        f'<Choices name="label" toName="item" choice="single">{choices}</Choices></View>'
    )
