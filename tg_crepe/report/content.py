from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tg_crepe._files import damaged_file, read_text
from tg_crepe.runs import Cell, RunFolder, RunResult


@dataclass(frozen=True)
class RunContent:
    r"""What a run left, as far as it did: every part but ``info`` may be missing, and the page is shorter then.

    Args:
        info (dict): The content of ``run.json``.
        result (RunResult, optional): The pseudo-labels.
        trace (dict): The columns of the solver's trace.
        metrics (list): A row per epoch.
        final (dict): The metrics of the last model.
        graph (tuple, optional): Edges, weights and the number of nodes.
        thumbnails (tuple, optional): Nodes and their images.
        snippets (dict, optional): The beginnings of texts by node. (default: none)
    """

    info: dict[str, Any]
    result: RunResult | None
    trace: dict[str, np.ndarray]
    metrics: list[dict[str, Cell]]
    final: dict[str, Any]
    graph: tuple[np.ndarray, np.ndarray, int] | None
    thumbnails: tuple[np.ndarray, np.ndarray] | None
    snippets: dict[int, str] = field(default_factory=dict)

    @classmethod
    def read(cls, run: RunFolder) -> RunContent:
        """Reads a folder; files that are there must be whole and fit each other."""
        result = run.read_result() if run.has("result.npz") else None
        graph = run.read_graph() if run.has("graph.npz") else None
        thumbnails = run.read_thumbnails() if run.has("thumbnails.npz") else None
        if result is not None and graph is not None and graph[2] != len(result.ids):
            raise damaged_file(run.path / "graph.npz", f"{graph[2]} nodes, but {len(result.ids)} pseudo-labels")
        if result is not None and thumbnails is not None:
            node, images = thumbnails
            fits = images.ndim == 4 and images.dtype == np.uint8 and node.shape == (len(images),)
            if not fits or (len(node) and not 0 <= node.min() <= node.max() < len(result.ids)):
                raise damaged_file(run.path / "thumbnails.npz", "its images do not fit the nodes")
        snippets: dict[int, str] = {}
        if result is not None and run.has("snippets.npz"):
            node, text = run.read_snippets()
            snippets = {int(place): str(words) for place, words in zip(node, text, strict=False)}
            if node.shape != text.shape or not all(0 <= place < len(result.ids) for place in snippets):
                raise damaged_file(run.path / "snippets.npz", "its texts do not fit the nodes")
        return cls(
            info=run.info,
            result=result,
            trace=run.read_trace() if run.has("trace.csv") else {},
            metrics=run.read_metrics() if run.has("metrics.csv") else [],
            final=_read_final(run),
            graph=graph,
            thumbnails=thumbnails if thumbnails is not None and len(thumbnails[0]) else None,
            snippets=snippets,
        )

    @cached_property
    def names(self) -> list[str]:
        """The names of the classes."""
        return [] if self.result is None else [str(name) for name in self.result.class_names]

    @cached_property
    def things(self) -> str:
        """What a person calls the nodes."""
        return "images" if self.thumbnails is not None else "texts" if self.snippets else "rows"

    @cached_property
    def multi_label(self) -> bool:
        """Whether the labels are findings on their own."""
        return self.result is not None and self.result.label.ndim == 2

    @cached_property
    def pseudo(self) -> np.ndarray:
        """The nodes with a pseudo-label: reached, and not labelled by the user."""
        assert self.result is not None
        return self.result.reached & ~self.result.labelled

    @cached_property
    def judged(self) -> np.ndarray:
        """The pseudo-labelled nodes whose true label is known, wholly or in part."""
        if self.result is None or self.result.truth is None:
            return np.zeros(0 if self.result is None else len(self.result.ids), dtype=bool)
        known = self.result.truth >= 0
        return self.pseudo & (known.any(axis=1) if self.multi_label else known)

    @cached_property
    def has_truth(self) -> bool:
        """Whether there is anything to compare with."""
        return bool(self.judged.any())

    @cached_property
    def correct(self) -> np.ndarray:
        """Whether the pseudo-label is right (all known findings are), where ``judged``."""
        assert self.result is not None
        if not self.has_truth or self.result.truth is None:
            return np.zeros(len(self.result.ids), dtype=bool)
        equal = (self.result.truth == self.result.label) | (self.multi_label & (self.result.truth < 0))
        return equal.all(axis=1) if self.multi_label else equal

    @cached_property
    def error(self) -> float | None:
        """The share of wrong pseudo-labels; of wrong findings where an image may have several."""
        if not self.has_truth:
            return None
        assert self.result is not None
        assert self.result.truth is not None
        truth, label = self.result.truth[self.judged], self.result.label[self.judged]
        return float((truth != label)[truth >= 0].mean())

    @cached_property
    def shown(self) -> np.ndarray:
        """One class a node for colours: its label, or the most probable of its findings; -1 for none."""
        assert self.result is not None
        label = self.result.label
        if not self.multi_label:
            return label
        present = np.where(label == 1, self.result.prob, -1.0)
        return np.where((label == 1).any(axis=1), present.argmax(axis=1), -1)

    def guess(self, node: int) -> str:
        """The label of a node in the user's words."""
        assert self.result is not None
        return self.name(self.result.label[node])

    def name(self, label: Any) -> str:
        """A class or a row of findings in the user's words."""
        if self.multi_label:
            return ", ".join(name for name, there in zip(self.names, label, strict=True) if there == 1) or "no finding"
        return self.names[int(label)] if 0 <= label < len(self.names) else "no label"


def _read_final(run: RunFolder) -> dict[str, Any]:
    """The trainer's last metrics."""
    path = run.path / "final.json"
    if not path.is_file():
        return {}
    try:
        final = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise damaged_file(path, f"it is not whole JSON ({error.msg} in line {error.lineno})") from error
    return final if isinstance(final, dict) else {}
