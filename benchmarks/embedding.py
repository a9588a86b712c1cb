"""How long an embedding takes beside a bare loop over the same model, and whether killing it changes a bit.

    python benchmarks/embedding.py                     # 10,000 CIFAR-10 images in files; results/embedding.md
    python benchmarks/embedding.py --count 1000 --out some/folder

The images are those of ``cifar10_subset`` (TG_CREPE_DATA), written as PNG files into a folder that is gone afterwards.
The model is ``--model`` at ``--size`` pixels. Loop and command take turns on blocks of the images, so that other work
on the machine meets both. Then the command is killed ``--kills`` times at random moments, given again, and the file
compared with that of a run that was left alone.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

# Loop and command alike: threads that spin while they wait would take most of the time on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from PIL import Image
from shared import machine
from shared.features import data_folder

from tg_crepe.datasets import load_cifar10_subset
from tg_crepe.embed import embed, get_encoder

#: Images that loop and command take in turn.
TURN = 256

#: Images of a block of the command.
BLOCK = 512


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="images in the folder")
    parser.add_argument("--turns", type=int, default=4, help=f"blocks of {TURN} images for the comparison with a loop")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--model", default="timm:tf_efficientnet_lite0")
    parser.add_argument("--size", type=int, default=128, help="pixels a side that the network sees")
    parser.add_argument("--out", type=Path, default=machine.RESULTS, help="folder of the results")
    return parser.parse_args(arguments)


def write_folder(folder: Path, count: int) -> list[Path]:
    """So many images as PNG files."""
    dataset = load_cifar10_subset(data_folder())
    folder.mkdir()
    paths = [folder / f"{place:05d}.png" for place in range(min(count, len(dataset)))]
    for path, image in zip(paths, dataset.images, strict=False):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    return paths


def compare_with_loop(paths: list[Path], options: argparse.Namespace) -> tuple[list[Turn], float]:
    """A bare loop and the command on the same images in turns, and the largest difference of their features."""
    encoder = get_encoder(options.model, size=options.size)
    encoder.encode([encoder.prepare(Image.open(path).convert("RGB")) for path in paths[:8]])  # what is made once
    turns, difference = [], 0.0
    for turn in range(options.turns):
        part = paths[turn * TURN : (turn + 1) * TURN]
        start = clocks()
        rows = []
        with torch.inference_mode():
            for first in range(0, len(part), encoder.batch_size):
                batch = [
                    encoder.transform(Image.open(path).convert("RGB")) for path in part[first:][: encoder.batch_size]
                ]
                rows.append(encoder.network(torch.stack(batch).to(memory_format=torch.channels_last)))
        middle = clocks()
        x = embed([str(path) for path in part], encoder).x
        end = clocks()
        turns.append(Turn(len(part), middle - start, end - middle))
        difference = max(difference, float(np.abs(torch.cat(rows).numpy() - x).max()))
    return turns, difference


@dataclass(frozen=True)
class Turn:
    """Seconds of the clock and of the processor that the loop and the command take for some images."""

    images: int
    loop: np.ndarray
    embed: np.ndarray


def clocks() -> np.ndarray:
    """The clock and the processor's time of all threads."""
    return np.array([time.perf_counter(), time.process_time()])


def tell_ratio(turns: list[Turn], clock: int) -> str:
    """The command's time beside the loop's: the median over the turns, and the range."""
    ratios = [float(turn.embed[clock] / turn.loop[clock]) for turn in turns]
    rates = [np.median([turn.images / getattr(turn, name)[clock] for turn in turns]) for name in ("loop", "embed")]
    return (
        f"{np.median(ratios):.2f} of the loop's, {min(ratios):.2f} to {max(ratios):.2f} in {len(turns)} turns "
        f"({rates[1]:.1f} and {rates[0]:.1f} images a second)"
    )


def run_embed(folder: Path, out: Path, options: argparse.Namespace, kill: tuple[float, int] | None = None) -> bool:
    """The command in a process of its own; whether it came to its end.

    It is killed after some seconds, or when so many blocks are whole: a busy machine may be quicker than it was.
    """
    line = [sys.executable, "-m", "tg_crepe", "embed", str(folder), "-o", str(out), "--model", options.model]
    start = time.perf_counter()
    with subprocess.Popen(
        [*line, "--size", str(options.size)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        while run.poll() is None:
            if kill is not None and (time.perf_counter() - start > kill[0] or count_blocks(out) >= kill[1]):
                run.kill()
            time.sleep(0.02)
        return run.returncode == 0


def count_blocks(out: Path) -> int:
    """The whole blocks of an embedding that is being made."""
    return len(list(out.with_name(f".{out.name}.blocks").glob("[0-9]*.npz")))


def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "images")
        paths = write_folder(folder, options.count)
        turns, difference = compare_with_loop(paths, options)
        start = time.perf_counter()
        assert run_embed(folder, Path(place, "whole.npz"), options), "the command failed"
        seconds, usage = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        draw, blocks = random.Random(0), []
        killed, total = Path(place, "killed.npz"), -(-len(paths) // BLOCK)
        for turn in range(options.kills):
            moment = (draw.uniform(0.1, 0.7) * seconds, max(1, round((turn + 1) * total / (options.kills + 1))))
            assert not run_embed(folder, killed, options, moment), "it was not killed"
            blocks.append(count_blocks(killed))
        assert run_embed(folder, killed, options), "the command failed"
        same = killed.read_bytes() == Path(place, "whole.npz").read_bytes()
    rows = [
        f"| images | {len(paths):,} PNG files of 32 x 32, {options.model} at {options.size} pixels |",
        f"| whole command | {seconds / 60:.1f} minutes, {usage.ru_utime / 60:.1f} of a core's |",
        f"| memory at most | {usage.ru_maxrss / 1024:.0f} MB |",
        f"| time of `embed` beside a bare loop | {tell_ratio(turns, 0)} |",
        f"| its processor time | {tell_ratio(turns, 1)} |",
        f"| largest difference of a feature | {difference:.1e} |",
        f"| killed {options.kills} times and resumed | {'the same bytes' if same else 'ANOTHER FILE'} |",
        f"| whole blocks of {BLOCK} images after each kill, of {total} | {', '.join(map(str, blocks))} |",
    ]
    command = f"python benchmarks/embedding.py --count {options.count} --turns {options.turns} --kills {options.kills}"
    text = "\n".join(["# From files to features", "", f"`{command}`; {machine.describe()}.", ""])
    text += "\n| | |\n|---|---|\n" + "\n".join(rows) + "\n"
    print(text)
    machine.write_text(text, options.out / "embedding.md")


if __name__ == "__main__":
    main()
