from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from tg_crepe import __version__
from tg_crepe._files import atomic_file
from tg_crepe._optional import require
from tg_crepe.graph import graph_report
from tg_crepe.report.charts import make_charts
from tg_crepe.report.content import RunContent
from tg_crepe.report.images import class_rows, next_to_label
from tg_crepe.report.node_map import map_data
from tg_crepe.report.sprite import Sprite
from tg_crepe.runs import RunFolder
from tg_crepe.runs.verdict import POOR, POOR_SHARE, UNKNOWN_ERROR
from tg_crepe.viz import PALETTE


def write_report(run: RunFolder | str | Path, out: str | Path | None = None, force: bool = True) -> Path:
    r"""Writes one self-contained page about a run: no network, no other file, light and dark, phone and desktop.

    .. code-block:: python

        from tg_crepe.report import write_report

        write_report("run")  # run/report.html

    Args:
        run (RunFolder or path): A run of ``tg-crepe propagate --run`` or of a trainer.
        out (path, optional): The page, ending in ``.html``. (default: :obj:`None`, ``report.html`` in the run's folder)
        force (bool, optional): Whether a page that is there is replaced; it can always be made again.
            (default: :obj:`True`)

    Returns:
        Path: Where the page is.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    path = folder.path / "report.html" if out is None else Path(out)
    if path.suffix.lower() != ".html":
        raise ValueError(f"'out' must end in .html, got '{path}'")
    if path.exists() and not force:
        raise FileExistsError(f"'{path}' exists; force=True replaces it")
    page = _render(RunContent.read(folder), folder.path.absolute().name)
    with atomic_file(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return path


@dataclass(frozen=True)
class _Fact:
    """A number and what it says."""

    value: str
    name: str


def _render(content: RunContent, name: str) -> str:
    """The page as text."""
    jinja2 = require("jinja2", extra="report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tg_crepe.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sprite = None if content.thumbnails is None or content.result is None else Sprite(*content.thumbnails)
    templates = files("tg_crepe.report") / "templates"
    text: str = environment.get_template("report.html").render(
        name=name,
        version=__version__,
        info=content.info,
        settings=_settings(content.info),
        versions=_plain_rows(content.info.get("versions", {})),
        headline=_headline(content),
        warning=_warning(content),
        things=content.things,
        facts=_facts(content),
        charts=make_charts(content),
        health=_health(content),
        map=None if content.result is None else map_data(content, sprite),
        sprite=sprite,
        num_texts=len(content.snippets),
        rows=class_rows(content, sprite),
        num_classes=len(content.names),
        next=next_to_label(content, sprite),
        has_result=content.result is not None,
        has_truth=content.has_truth,
        multi_label=content.multi_label,
        palette=PALETTE,
        style=(templates / "report.css").read_text(encoding="utf-8"),
        script=(templates / "report.js").read_text(encoding="utf-8"),
    )
    return text


def _headline(content: RunContent) -> str:
    """The one sentence for those who read no further."""
    if content.error is not None:
        what = "findings" if content.multi_label else "pseudo-labels"
        return f"{100 * content.error:.2f} % of the {what} are wrong"
    expected = content.info.get("expected_error")
    if isinstance(expected, dict):
        value, low, high = (100 * float(expected[name]) for name in ("value", "low", "high"))
        return f"About {value:.0f} % of the pseudo-labels are probably wrong ({low:.0f} to {high:.0f} %)"
    if content.result is not None and content.pseudo.any():
        return "How many of the pseudo-labels are wrong is not known"
    last = content.final.get("error")
    return "A run without pseudo-labels" if last is None else f"{100 * last:.2f} % of the test images are wrong"


def _warning(content: RunContent) -> str | None:
    """What a person should know before taking the labels for true, None where there is nothing."""
    if content.result is None or not content.pseudo.any():
        return None
    expected = content.info.get("expected_error")
    if content.error is None and not isinstance(expected, dict):
        return UNKNOWN_ERROR
    share = content.error if content.error is not None else float(expected["value"]) if expected else 0.0
    return POOR if share > POOR_SHARE else None


def _facts(content: RunContent) -> list[_Fact]:
    """The numbers beside the headline."""
    facts = []
    result = content.result
    if result is not None:
        facts += [
            _Fact(f"{len(result.ids):,}", content.things),
            _Fact(f"{int(result.labelled.sum()):,}", "with a given label"),
            _Fact(f"{len(content.names):,}", "findings" if content.multi_label else "classes"),
        ]
        if content.has_truth:
            facts.append(_Fact(f"{int(content.judged.sum()):,}", "pseudo-labels with known truth"))
    for key, title in (("error", "test error of the network"), ("auc", "test AUC")):
        if content.final.get(key) is not None:
            facts.append(_Fact(f"{100 * content.final[key]:.2f} %", title))
    return [*facts, _Fact(str(content.info.get("status", "unknown")), "status")]


def _health(content: RunContent) -> list[tuple[str, str]]:
    """What one should know of the graph."""
    result = content.result
    if content.graph is None or result is None:
        return []
    edge_index, edge_weight, num_nodes = content.graph
    truth = None
    if content.has_truth and result.truth is not None and not content.multi_label:
        truth = torch.from_numpy(result.truth).long()
    report = graph_report(
        torch.from_numpy(edge_index),
        torch.from_numpy(edge_weight),
        torch.from_numpy(result.labelled),
        truth,
        num_nodes,
    )
    rows = [
        (content.things, f"{report.num_nodes:,}"),
        ("edges", f"{report.num_edges:,}"),
        (f"{content.things} without a neighbour", f"{report.isolated_nodes:,}"),
        ("separate parts", f"{report.components:,}"),
        ("separate parts without a label", f"{report.components_without_label:,}"),
        (f"{content.things} that no label reaches", f"{report.unreached_nodes:,}"),
        ("weight of the edges of one, smallest", f"{report.degree_min:.4g}"),
        ("the same, median", f"{report.degree_median:.4g}"),
        ("the same, largest", f"{report.degree_max:.4g}"),
    ]
    if report.homophily is not None:
        rows.append(("weight of edges within a class", f"{100 * report.homophily:.1f}\u00a0%"))
    return rows


def _settings(info: dict[str, Any]) -> list[tuple[str, str]]:
    """What the run depended on; the seed is said once, also where it is one of the settings."""
    rows = _plain_rows(info.get("settings", {}))
    return rows if "seed" in dict(rows) else [*rows, *_plain_rows({"seed": info.get("seed")})]


def _plain_rows(values: Any) -> list[tuple[str, str]]:
    """Settings as names and text."""
    if not isinstance(values, dict):
        return []
    return [
        (str(key), ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for key, value in values.items()
        if value is not None
    ]
