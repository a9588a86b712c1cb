"""Files on their way to features: the embedding of a source, kept beside it or in a cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from tg_crepe.cli._inputs import Features
    from tg_crepe.embed import Encoder, Source

#: The endings of a table, which holds numbers or texts.
_TABLES = (".csv", ".parquet")

#: How many of the files that were left out are named on the screen.
_NAMED = 20


@dataclass(frozen=True)
class EmbedOptions:
    """What a user said of the embedding, None where nothing."""

    model: str | None = None
    weights: Path | None = None
    text: str | None = None
    size: int | None = None
    batch_size: int | None = None
    device: str | None = None
    precision: str | None = None
    skip_bad: bool = False
    cache: Path | None = None

    @property
    def for_encoder(self) -> dict[str, Any]:
        """The options of the encoder that were given."""
        names = ("weights", "size", "batch_size", "device", "precision")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def is_source(path: Path, options: EmbedOptions) -> bool:
    """Whether a path holds files to embed: a folder, a table whose texts are asked for, or a .npz file of images."""
    if path.is_dir():
        return True
    asked = options.model is not None or options.text is not None
    if path.suffix.lower() in _TABLES:
        return asked
    if path.suffix.lower() == ".npz" and path.is_file() and asked:
        import numpy as np

        try:
            with np.load(path, allow_pickle=False) as file:
                return "images" in file.files and "x" not in file.files
        except (ValueError, OSError, EOFError, zipfile.BadZipFile):
            return False  # the reader of features says what is wrong with it
    return False


def check_made_with(path: Path, model: str) -> None:
    """Raise where features were made with another model than the one that is named."""
    from tg_crepe._files import damaged_file
    from tg_crepe.embed.file import read_note

    note = read_note(path) if path.suffix.lower() == ".npz" and path.is_file() else None
    if note is None:
        raise typer.BadParameter(
            f"{path} holds features and does not say which model made them: leave --model out", param_hint="'--model'"
        )
    if model not in (note["model"], (note.get("asked") or {}).get("model")):
        raise damaged_file(path, f"it was made with another model, {note['model']}, and not with {model}")


def read_embedded(path: Path, options: EmbedOptions, screen: Console, labels: Sequence[Path] | None = None) -> Features:
    """The features of a source: those that were kept, if they are still those of its files, or else new ones.

    What is wrong with the ``labels`` is said before minutes of work.
    """
    from tg_crepe._labels import ClassRule
    from tg_crepe.cli._inputs import Features, read_labels
    from tg_crepe.embed import DEFAULT_MODELS, embed_to_file, open_source, read_embedding

    source = open_source(path, None, options.text)
    if labels is not None:
        with warnings.catch_warnings():  # they are read again with the features, and what is to tell is told then
            warnings.simplefilter("ignore")
            read_labels(labels, source.ids, rule=ClassRule(new_class=True))
    model = options.model or DEFAULT_MODELS[source.kind]
    out = kept_in(path, model, options)
    if (reason := _why_again(out, source, model, options)) is not None:
        if reason:
            screen.print(f"{out} {reason}: it is made again", highlight=False, soft_wrap=True, markup=False)
        done = embed_to_file(
            source,
            out,
            model,
            column=options.text,
            skip_bad=options.skip_bad,
            on_start=lambda *facts: tell_start(screen, *facts),
            **options.for_encoder,
        )
        tell_notes(screen, done.made)
    else:
        screen.print(f"features of {path} are in {out}", highlight=False, soft_wrap=True, markup=False)
    kept = read_embedding(out)
    return Features(
        kept.x, list(kept.ids), source=source, left_out=tuple(kept.made["skipped"]), model=kept.made["model"]
    )


def kept_in(path: Path, model: str, options: EmbedOptions) -> Path:
    """The file that keeps the embedding of a source by a model: beside the source, or in the cache."""
    source = path.resolve()
    folder = source.parent if options.cache is None else options.cache
    if options.cache is not None:
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"the folder '{folder}' cannot be written: --cache must name another for the embedding")
    name = f"{source.name}.{re.sub(r'[^A-Za-z0-9_.]+', '-', model).strip('-.')}"
    special = {key: str(value) for key, value in {**options.for_encoder, "text": options.text}.items() if value}
    if special:
        name += "-" + hashlib.sha256(json.dumps(special, sort_keys=True).encode()).hexdigest()[:8]
    return folder / f"{name}.npz"


def _why_again(out: Path, source: Source, model: str, options: EmbedOptions) -> str | None:
    """Why an embedding has to be made: None where the kept one will do, blank where there is none."""
    from tg_crepe.embed.file import read_note
    from tg_crepe.embed.run import asked_for

    if not out.is_file():
        return ""
    note = read_note(out)
    if note is None:
        return "is no whole embedding"
    if note.get("asked") != asked_for(model, options.text, options.for_encoder):
        return f"was made with another model or other options ({note['model']})"
    if note["source"].get("fingerprint") != source.fingerprint():
        return "was made of other files"
    if note["skipped"] and not options.skip_bad:
        return "was made without some files"
    return None


def tell_start(screen: Console, encoder: Encoder, source: Source, done: int) -> None:
    """What will be done, before it is."""
    again = f", {done:,} of them are done" if done else ""
    screen.print(
        f"{len(source):,} {source.kind} by {encoder.name} on {encoder.device}, {encoder.precision}{again}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


def tell_notes(screen: Console, made: dict[str, Any]) -> None:
    """What a user should know of an embedding: files that were left out, texts that were cut."""
    reasons = list(made["skipped"].values())
    lines = [f"left out: {reason}" for reason in reasons[:_NAMED]]
    if len(reasons) > _NAMED:
        lines.append(f"left out: {len(reasons) - _NAMED:,} more, which 'made' in the file of features names")
    if made["truncated"]:
        window = made["encoder"].get("preprocessing", {}).get("window")
        lines.append(
            f"{made['truncated']:,} of {made['source']['items']:,} texts are longer than the model's window of "
            f"{window} tokens; the rest of them was not read"
        )
    for line in lines:
        screen.print(f"[yellow]note:[/yellow] {_escape(line)}", highlight=False, soft_wrap=True)


def _escape(line: str) -> str:
    from rich.markup import escape

    return escape(" ".join(line.split()))
