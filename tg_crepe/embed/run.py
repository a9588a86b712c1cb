from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from tg_crepe import __version__
from tg_crepe._files import check_unique, damaged_file
from tg_crepe._waiting import wait_passively
from tg_crepe.embed.blocks import Block, BlockFolder
from tg_crepe.embed.encoder import Encoder
from tg_crepe.embed.file import Embedding, write_embedding
from tg_crepe.embed.images import quiet_pictures
from tg_crepe.embed.registry import DEFAULT_MODELS, get_encoder
from tg_crepe.embed.source import Source, file_mark, open_source
from tg_crepe.warnings import DatasetWarning

#: Items of a block at least, rounded up to whole batches: what a run that is killed loses at most.
_BLOCK = 512


@dataclass(frozen=True)
class Embedded:
    r"""What was written.

    Args:
        path (Path): The file.
        rows (int): Its rows.
        made (dict): What it was made with; ``skipped`` and ``truncated`` are there.
        resumed (int): Items that an earlier run had done.
    """

    path: Path
    rows: int
    made: dict[str, Any]
    resumed: int = 0


def embed(
    source: Any, model: Any = None, *, column: str | None = None, skip_bad: bool = False, **options: Any
) -> Embedding:
    r"""Turns images or texts into features by a pretrained model.

    .. code-block:: python

        from tg_crepe.embed import embed

        embedding = embed("images/", "timm:tf_efficientnet_lite0")
        embedding.x, embedding.ids  # [num_images, 1280], the names of the files
        embed(["a text", "another"]).x  # [2, 384]

    Args:
        source: See :func:`open_source`.
        model (str, path, torch.nn.Module, callable or Encoder, optional): See :func:`get_encoder`.
            (default: :obj:`None`, that of :obj:`DEFAULT_MODELS` for what the source holds)
        column (str, optional): The column of a table that holds the texts or images. (default: :obj:`None`)
        skip_bad (bool, optional): Whether items that cannot be read are left out, and named in ``made["skipped"]``,
            instead of raising. (default: :obj:`False`)
        **options: Those of :func:`get_encoder`: :obj:`weights`, :obj:`batch_size`, :obj:`device`, :obj:`precision`, …
    """
    encoder, items = _open(source, model, column, options)
    blocks = list(_make_blocks(items, encoder, skip_bad, None))
    _check_rows(items, encoder, blocks)
    x = np.concatenate([block.x for block in blocks if len(block.x)])
    ids, made = _summary(items, encoder, {}, blocks)
    if made["truncated"]:
        warnings.warn(
            f"{made['truncated']} of {len(items)} texts are longer than the window of '{encoder.name}' and were cut",
            DatasetWarning,
            stacklevel=2,
        )
    return Embedding(x, tuple(ids), made)


def embed_to_file(
    source: Any,
    out: str | os.PathLike[str],
    model: Any = None,
    *,
    column: str | None = None,
    skip_bad: bool = False,
    on_start: Callable[[Encoder, Source, int], None] | None = None,
    **options: Any,
) -> Embedded:
    r"""The same into a file, block by block: memory does not grow with the number of items, and a run that was killed
    goes on at the last whole block to the same bits.

    Blocks are in a hidden folder beside the file until it is whole. A file that is there is replaced. A network or a
    function of your own starts anew every time: nothing tells it from another of the same name.

    Args:
        source: See :func:`embed`.
        out (path): The file, ending in ``.npz``: ``x``, ``ids`` and ``made``, as :func:`read_embedding` reads it.
        model (optional): See :func:`embed`. (default: :obj:`None`)
        column (str, optional): See :func:`embed`. (default: :obj:`None`)
        skip_bad (bool, optional): See :func:`embed`. (default: :obj:`False`)
        on_start (callable, optional): Called with the encoder, the source and the number of items that are done
            already, before the work. (default: :obj:`None`)
        **options: Those of :func:`get_encoder`.
    """
    path = Path(out)
    if path.suffix.lower() != ".npz":
        raise ValueError(f"'out' must end in .npz, got '{path}'")
    given = Path(source) if isinstance(source, str | os.PathLike) else None
    if given is not None and given.exists() and path.exists() and path.samefile(given):
        raise ValueError(f"'out' must not be the source itself, got '{path}'")
    asked = asked_for(model, column, options)
    encoder, items = _open(source, model, column, options)
    check_unique(items.name, "the id", items.ids)
    folder = BlockFolder(path, {**_plan(encoder), "machine": _machine(encoder)})
    if not encoder.known:
        folder.remove()
    parts = _parts(items, encoder)
    kept = [len(part) for number, part in enumerate(parts) if folder.begun and folder.has(number, _mark(items, part))]
    done = sum(kept)
    if on_start is not None:
        on_start(encoder, items, done)
    # Rows are written from the blocks in a second pass: how many there are is known by then.
    shorts = [
        replace(block, x=np.empty((0, block.x.shape[1]), np.float32))  # a part of x would keep all of it
        for block in _make_blocks(items, encoder, skip_bad, folder, done)
    ]
    rows, width = _check_rows(items, encoder, shorts)
    ids, made = _summary(items, encoder, asked, shorts)
    read = (folder.read(number, _mark(items, part)).x for number, part in enumerate(parts))
    whole = folder.path / path.name  # what a kill leaves of it goes with the folder
    write_embedding(whole, read, ids, (rows, width), made)
    whole.replace(path)
    folder.remove()
    return Embedded(path, rows, made, done)


def asked_for(model: Any, column: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """What a user asked for, in plain values: a later run compares with it before it loads any model."""
    weights = options.get("weights")
    name = None if model is None else str(model) if isinstance(model, str | os.PathLike) else type(model).__name__
    files = sorted(path for path in Path(name).rglob("*") if path.is_file()) if name and Path(name).is_dir() else []
    return {
        "model": name,
        "files": [f"{path.relative_to(str(name)).as_posix()} {file_mark(path)}" for path in files],
        "weights": None if weights is None else f"{weights} {file_mark(Path(weights))}",
        "size": options.get("size"),
        "column": column,
    }


def _open(source: Any, model: Any, column: str | None, options: dict[str, Any]) -> tuple[Encoder, Source]:
    """The source is looked at first: what is wrong with it is known before a model is loaded."""
    items = open_source(source, None, column) if model is None or isinstance(source, str | os.PathLike) else None
    encoder = get_encoder(DEFAULT_MODELS[items.kind] if model is None and items is not None else model, **options)
    return encoder, open_source(source if items is None else items, encoder.kind, column)


def _plan(encoder: Encoder) -> dict[str, Any]:
    """What the bits of a row depend on, besides the item."""
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    if encoder.kind == "images":
        versions["pillow"] = version("pillow")
    return {
        "model": encoder.name,
        "encoder": encoder.describe(),
        "batch_size": encoder.batch_size,
        "precision": encoder.precision,
        "device": encoder.device.type,
        "versions": versions,
    }


def _machine(encoder: Encoder) -> dict[str, Any]:
    """What else may change the last bit of a row: blocks of another machine are not taken."""
    gpu = torch.cuda.get_device_name(encoder.device) if encoder.device.type == "cuda" else None
    capability = torch.backends.cpu.get_cpu_capability()
    return {"gpu": gpu, "cpu": f"{platform.machine()} {capability}", "threads": torch.get_num_threads()}


def _parts(source: Source, encoder: Encoder) -> list[range]:
    """The items of every block: whole batches, so that no bit depends on where a run was interrupted."""
    size = -(-_BLOCK // encoder.batch_size) * encoder.batch_size
    return [range(start, min(start + size, len(source))) for start in range(0, len(source), size)]


def _mark(source: Source, part: range) -> str:
    return source.fingerprint(part.start, part.stop)


def _make_blocks(
    source: Source, encoder: Encoder, skip_bad: bool, folder: BlockFolder | None, done: int = 0
) -> Iterator[Block]:
    """All blocks in order, read where they are kept, else made (and kept); ``done`` items are kept."""
    wait_passively()
    # What was done before says nothing of the rate.
    progress = {"total": len(source), "initial": done, "unit": f" {source.kind}", "disable": None}
    quiet: AbstractContextManager[None] = quiet_pictures() if source.kind == "images" else nullcontext()
    with quiet, _reading_threads() as pool, tqdm(desc=f"embedding {source.kind}", **progress) as bar:
        for number, part in enumerate(_parts(source, encoder)):
            if done and folder is not None and folder.has(number, _mark(source, part)):
                block = folder.read(number, _mark(source, part))
                if skip_bad or not block.skipped:
                    yield block
                    continue
            block = _make_block(source, encoder, part, skip_bad, pool, bar)
            if folder is not None:
                folder.write(number, _mark(source, part), block)
            yield block


@contextmanager
def _reading_threads() -> Iterator[ThreadPoolExecutor]:
    """Threads that read items; where the work ends early, what they have not begun is dropped, so that Ctrl-C does not
    wait for it."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _make_block(
    source: Source, encoder: Encoder, part: range, skip_bad: bool, pool: ThreadPoolExecutor, bar: Any
) -> Block:
    """The rows of some items; the next batch is prepared by threads while the model is at work on this one."""
    step = len(part) if encoder.batches else encoder.batch_size
    batches = [part[start : start + step] for start in range(0, len(part), step)]
    rows: list[np.ndarray] = []
    places: list[int] = []
    skipped: dict[int, str] = {}
    truncated = 0
    waiting = _submit(pool, source, encoder, batches[0])
    for turn, batch in enumerate(batches):
        futures, waiting = waiting, _submit(pool, source, encoder, batches[turn + 1]) if turn + 1 < len(batches) else []
        good, items = [], []
        for place, future in zip(batch, futures, strict=True):
            try:
                items.append(future.result())
                good.append(place)
            except (ValueError, OSError) as error:
                if not skip_bad:
                    raise
                skipped[place] = str(error)
        if items:
            x = _encode(encoder, items)
            _check_finite(source, encoder, good, x)
            if rows and x.shape[1] != rows[0].shape[1]:
                raise ValueError(f"'{encoder.name}' must give rows of one length, got {rows[0].shape[1]}, {x.shape[1]}")
            truncated += encoder.count_too_long(items)
            rows.append(x)
            places += good
        bar.update(len(batch))
    x = np.concatenate(rows) if rows else np.empty((0, 0), np.float32)
    return Block(x, np.array(places, np.int64), skipped, truncated)


def _encode(encoder: Encoder, items: list[Any]) -> np.ndarray:
    """The rows of a batch; a GPU that it is too large for is one line."""
    try:
        return encoder.encode(items).numpy()
    except torch.OutOfMemoryError as error:
        raise MemoryError(
            f"{encoder.batch_size} {encoder.kind} at a time do not fit into the memory of {encoder.device}: a smaller "
            "batch_size (--batch-size) helps"
        ) from error


def _submit(pool: ThreadPoolExecutor, source: Source, encoder: Encoder, batch: range) -> list[Future[Any]]:
    def prepare(place: int) -> Any:
        return encoder.prepare(source.read(place))

    return [pool.submit(prepare, place) for place in batch]


def _check_finite(source: Source, encoder: Encoder, places: list[int], x: np.ndarray) -> None:
    """Raise where a model gives no number."""
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        raise ValueError(
            f"'{encoder.name}' gives NaN or infinity for '{source.ids[places[bad[0]]]}' ({len(bad)} in its batch); "
            "precision='float32' may help"
        )


def _check_rows(source: Source, encoder: Encoder, blocks: list[Block]) -> tuple[int, int]:
    """How many rows there are, and how many numbers in each."""
    widths = {block.x.shape[1] for block in blocks if len(block.place)}
    if not widths:
        raise damaged_file(source.name, f"none of its {len(source)} {source.kind} can be read")
    if len(widths) > 1:
        raise ValueError(f"'{encoder.name}' must give rows of one length, got {', '.join(map(str, sorted(widths)))}")
    return sum(len(block.place) for block in blocks), widths.pop()


def _summary(
    source: Source, encoder: Encoder, asked: dict[str, Any], blocks: list[Block]
) -> tuple[list[str], dict[str, Any]]:
    """The names of the rows, and what they were made with."""
    ids = [source.ids[place] for block in blocks for place in block.place.tolist()]
    skipped = {source.ids[place]: reason for block in blocks for place, reason in block.skipped.items()}
    shown = {
        name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"): why
        for name, why in skipped.items()
    }
    plan = _plan(encoder)
    versions = {"tg-crepe": __version__, "python": platform.python_version(), **plan["versions"]}
    made = {**plan, "versions": versions, "asked": asked, "kind": source.kind}
    made |= {"source": {"name": Path(source.name).name, "items": len(source), "fingerprint": source.fingerprint()}}
    return ids, {**made, "skipped": shown, "truncated": sum(block.truncated for block in blocks)}
