"""What an experiment's table says, as a text of its own and as a part of the page."""

from __future__ import annotations

from pathlib import Path

from hybrid import report

#: The experiments that have a part of ``docs/hybrid.md``, which has the name of their table; it links to the others.
EXPERIMENTS = ("network", "energy")


def read(experiment: str, table: Path) -> list[report.Row]:
    """The rows of a table, and those of the same runs without what the experiment changes, where those are."""
    rows = report.read(table)
    plain = report.plain_runs(table.parent, rows) if experiment in (*report.CHANGED, "calibration") else []
    return [*rows, *plain]


def report_text(experiment: str, table: Path, failed: int = 0) -> str:
    """The text beside the table."""
    text = report.summary(experiment, read(experiment, table), failed)
    if experiment == "features":
        text += "\n" + "\n".join(report.features_table(table.parent, "fashion_mnist")) + "\n"
    return text


def page_text(experiment: str, table: Path) -> str:
    """The part of the page: that text without its first line, which names a machine, and the figure."""
    text = report_text(experiment, table).partition("\n")[2].strip()
    return f"{text}\n\n![{experiment}](images/{table.stem}.png)\n"
