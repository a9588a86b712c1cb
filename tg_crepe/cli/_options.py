"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tg_crepe._labels import ClassRule

Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

Labels = Annotated[
    list[Path] | None,
    typer.Option(
        help="A csv file id,label; blank or absent means unlabelled. Ids of rows without name: 0, 1, … "
        "May be given several times: the tables are taken together."
    ),
]
Classes = Annotated[
    str | None, typer.Option(metavar="NAME,NAME…", help="The classes; a label of any other name is an error.")
]
NewClass = Annotated[
    bool, typer.Option("--allow-new-class", help="Take a class whose name looks like a slip of another.")
]
Weights = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Weights of your own for the pretrained model (.safetensors, .pth).")
]
Text = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of a table that holds the texts.")]
Size = Annotated[int | None, typer.Option(min=1, help="Pixels per side that images are brought to.")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Images or texts at a time (64).")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, … (a GPU if there is one).")]
Precision = Annotated[
    str | None, typer.Option(help="auto (bfloat16 on GPUs that have it), float32, bfloat16 or float16.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out files that cannot be read, and name them.")]
Cache = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where the features of files are kept (beside the files).")
]


def class_rule(classes: str | None, new_class: bool) -> ClassRule:
    """What a user said of the names of classes."""
    from tg_crepe._labels import ClassRule, clean

    if classes is None:
        return ClassRule(None, new_class)
    names = [name for name in map(clean, classes.split(",")) if name]
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise typer.BadParameter(
            f"it must name two classes or more, each once, got '{classes}'", param_hint="'--classes'"
        )
    return ClassRule(names, new_class)


class DidNotConverge(Exception):
    """The command ran, wrote its results and missed its target: exit code 1."""
