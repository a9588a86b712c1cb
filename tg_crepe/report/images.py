from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tg_crepe.report.content import RunContent
from tg_crepe.report.sprite import Sprite
from tg_crepe.runs.kept_nodes import suggest_nodes

#: Images in a row, texts in a list, and classes that are shown.
_ROW, _TEXTS, _CLASSES = 8, 4, 30


@dataclass(frozen=True)
class Tile:
    """One node in a row of images or texts: its name, its guess, its certainty, where its image is (None: it has none)
    and how its text begins (blank: it has none)."""

    id: str
    guess: str
    certainty: str
    style: str | None
    wrong: bool
    text: str = ""

    @property
    def words(self) -> str:
        """The tile for those who do not see it."""
        mistake = ", wrong" if self.wrong else ""
        return f"{self.id}: {self.guess}, certainty {self.certainty}{mistake}"


@dataclass(frozen=True)
class ClassRow:
    """The most and the least certain images or texts of a class."""

    name: str
    most: list[Tile]
    least: list[Tile]


def class_rows(content: RunContent, sprite: Sprite | None) -> list[ClassRow]:
    """For every class the pseudo-labelled images, or texts, that are the most and the least certain, of those kept."""
    result = content.result
    shown = content.snippets if sprite is None else sprite.place
    if result is None or not shown:
        return []
    most_of_row = _ROW if sprite is not None else _TEXTS
    node = np.array(sorted(shown))
    node = node[content.pseudo[node]]
    rows = []
    for place, name in enumerate(content.names[:_CLASSES]):
        if content.multi_label:
            members = node[result.label[node, place] == 1]
            certainty = np.abs(2 * result.prob[members, place] - 1)
        else:
            members = node[result.label[node] == place]
            certainty = result.certainty[members]
        order = members[np.argsort(-certainty, kind="stable")]
        count = min(most_of_row, len(order) // 2)
        if len(order) == 1:
            count = 1
        most, least = order[:count], order[::-1][:count] if len(order) > 1 else order[:0]
        if len(order):
            rows.append(ClassRow(name, _tiles(content, sprite, most), _tiles(content, sprite, least)))
    return rows


def next_to_label(content: RunContent, sprite: Sprite | None) -> list[Tile] | None:
    """The nodes that are worth a label most; None where the run has no graph to tell from."""
    result = content.result
    if result is None or content.graph is None:
        return None
    nodes = suggest_nodes(result.prob, result.labelled, content.graph, content.multi_label)
    return _tiles(content, sprite, nodes.numpy())


def _tiles(content: RunContent, sprite: Sprite | None, nodes: np.ndarray) -> list[Tile]:
    result = content.result
    assert result is not None
    return [
        Tile(
            id=str(result.ids[node]),
            guess=content.guess(node),
            certainty=f"{float(result.certainty[node]):.2f}",
            style=None if sprite is None else sprite.style(int(node)),
            wrong=bool(content.judged[node] and not content.correct[node]),
            text=content.snippets.get(int(node), ""),
        )
        for node in nodes
    ]
