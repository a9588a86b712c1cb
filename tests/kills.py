"""Kills every command that writes at random moments, and sees what is left and whether the same line goes on from it.

``python tests/kills.py FOLDER --count 20`` (with ``tests`` on the path) prints a row per command and signal. One
process imports everything and is forked for every case, which would need seconds for it otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

#: The line of every command, what it writes, and what it keeps to go on from.
COMMANDS = {
    "propagate": ("propagate features.npz --labels labels.csv -o out.csv --run made", ("out.csv", "made"), ()),
    "train": ("train images --labels images.csv --size 8 --epochs 6 --run trained", ("trained",), ("trained",)),
    "report": ("report seen -o page.html", ("page.html",), ()),
    "label-next": ("label-next seen -n 20 -o next.csv", ("next.csv",), ()),
    "embed": (
        "embed images -o embedded.npz --model timm:test_resnet --batch-size 8",
        ("embedded.npz",),
        (".embedded.npz.blocks",),
    ),
    "partition": ("partition features.npz --labels labels.csv -n 3 -o shards", ("shards",), ()),
    "export": ("export seen --to label-studio -o tasks.json", ("tasks.json",), ()),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)

#: Imported once. The work itself must not begin before the fork: threads do not survive it.
MODULES = (
    "tg_crepe.cli.app",
    "tg_crepe.cli._inputs",
    "tg_crepe.cli._propagation",
    "tg_crepe.models",
    "tg_crepe.heads",
    "tg_crepe.runs",
    "tg_crepe.report",
    "tg_crepe.report.page",
    "tg_crepe.export",
    "tg_crepe.embed",
    "tg_crepe.embed.timm",
    "tg_crepe.training",
    "tg_crepe.active",
    "tg_crepe.distributed",
    "tg_crepe.nn",
    "sklearn.linear_model",
    "pyarrow.csv",
    "matplotlib.figure",
    "jinja2",
    "timm",
    "accelerate",
    "torchvision",
    "numba",
    "scipy.sparse.linalg",
    "faiss",
    "pymetis",
    "sklearn.cluster",
)


def prepare(folder: Path) -> None:
    """Inputs of every command; the run that some read is made by a command of its own."""
    from embed_inputs import COLOURS, write_images

    rng, names = np.random.default_rng(0), ("red", "green", "blue")
    y = np.arange(400) % 3
    x = rng.normal(size=(400, 16)) * 0.6 + np.eye(3, 16)[y] * 4
    ids = [f"p{i:04d}" for i in range(len(y))]
    np.savez(folder / "features.npz", x=x.astype(np.float32), ids=np.array(ids))
    rows = [f"{ids[i]},{names[y[i]]}" for i in range(30)]
    (folder / "labels.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
    colours = write_images(folder / "images", 96, 8)
    found = sorted(path.name for path in (folder / "images").iterdir())
    rows = [f"{name},{colour}" for name, colour in zip(found, colours, strict=True)][:24]
    assert {row.split(",")[1] for row in rows} == set(COLOURS)
    (folder / "images.csv").write_text("id,label\n" + "\n".join(rows) + "\n")


def warm_up(folder: Path) -> None:
    """The run that some commands read, and what is loaded by the first call of everything; one thread alone works."""
    import torch

    from tg_crepe.cli.app import run
    from tg_crepe.report import write_report

    torch.set_num_threads(1)
    here = Path.cwd()
    os.chdir(folder)
    assert run(["propagate", "features.npz", "--labels", "labels.csv", "-o", "seen.csv", "--run", "seen"]) == 0
    write_report("seen", folder.parent / "warm.html")
    os.chdir(here)
    threads = [thread.name for thread in threading.enumerate() if type(thread).__name__ != "TMonitor"]
    assert len(threads) == 1, threads  # another one would be missing in the children
    gc.freeze()  # a collection in a child would copy all that is imported


def start(folder: Path, line: str) -> int:
    """The number of a process that runs a command line in a folder, as the shell would."""
    child = os.fork()
    if child:
        return child
    os.chdir(folder)
    for number in (1, 2):
        os.dup2(os.open(folder.with_suffix(".said"), os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
    import tg_crepe.cli
    import tg_crepe.embed.run

    tg_crepe.embed.run._BLOCK = 32
    sys.argv = ["tg-crepe", *line.split()]
    try:
        tg_crepe.cli.main()
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)  # to take down all that is imported takes a second
    raise AssertionError("main does not return")


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def content(path: Path) -> object:
    """What must be the same after a kill: all but the seconds and moments that were measured."""
    if path.is_dir():
        return {item.name: content(item) for item in sorted(path.iterdir()) if not item.name.startswith(".")}
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {name: digest(file[name].tobytes()) for name in file.files if name != "made"}
    if path.suffix == ".pt":
        import torch

        kept = torch.load(path, weights_only=False)
        return {name: digest(value.numpy().tobytes()) for name, value in kept["model"].items()}
    if path.suffix in (".json", ".jsonl", ".csv", ".html") and path.parent.name in ("made", "trained", "shards"):
        return _of_run(path)
    return digest(path.read_bytes())


def _of_run(path: Path) -> object:
    """A file of a run, without its times, and the trainer's checkpoint by its weights."""
    if path.suffix == ".json":
        found = json.loads(path.read_text())
        return {key: value for key, value in found.items() if "seconds" not in key and key != "command_line"}
    if path.suffix in (".csv", ".jsonl"):
        lines = path.read_text().splitlines()
        if path.suffix == ".jsonl":
            rows = [json.loads(line) for line in lines]
        else:
            rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
        return [{key: value for key, value in row.items() if "seconds" not in key} for row in rows]
    return digest(path.read_bytes())


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kill(
    command: str, number: int, inputs: Path, place: Path, after: float, whole: dict[str, object]
) -> dict[str, str]:
    """One case: how the process ended, and what is wrong with what it left."""
    line, outputs, kept = COMMANDS[command]
    shutil.copytree(inputs, place)
    child = start(place, line)
    time.sleep(after)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)
    code = wait(child)
    result = {"code": str(code), "problem": ""}
    if code not in (0, 128 + number, -number):
        return result | {"problem": f"exit code {code}"}
    left = {item.name for item in place.iterdir()} - {item.name for item in inputs.iterdir()}
    strange = {name for name in left if name not in (*outputs, *kept)}
    if number != signal.SIGKILL and strange:
        return result | {"problem": f"left behind: {sorted(strange)}"}
    if any(not name.startswith(".") for name in strange):
        return result | {"problem": f"left under a final name: {sorted(strange)}"}
    for name in set(outputs) - set(kept):
        if (place / name).exists() and content(place / name) != whole[name]:
            return result | {"problem": f"'{name}' is not whole"}
    if any(content(place / item.name) != content(item) for item in inputs.iterdir()):
        return result | {"problem": "an input was changed"}
    again = line + (" --resume" if command == "train" else " --force")
    code = wait(start(place, again))
    if code != 0:
        said = place.with_suffix(".said").read_text().splitlines()[-1:]
        return result | {"problem": f"the same line then has exit code {code}: {said}"}
    for name in outputs:
        if content(place / name) != whole[name]:
            return result | {"problem": f"'{name}' differs from that of an undisturbed run"}
    if any((place / name).exists() for name in kept if name not in outputs):
        return result | {"problem": "what it goes on from is still there"}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS))
    parser.add_argument("--signals", nargs="*", default=[number.name for number in SIGNALS])
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    inputs = chosen.folder / "inputs"
    inputs.mkdir(parents=True)
    prepare(inputs)
    warm_up(inputs)
    moment = random.Random(chosen.seed)
    rows = []
    for command in chosen.commands:
        place = chosen.folder / f"{command}-whole"
        shutil.copytree(inputs, place)
        begin = time.perf_counter()
        code = wait(start(place, COMMANDS[command][0]))
        seconds = time.perf_counter() - begin
        assert code == 0, place.with_suffix(".said").read_text()
        whole = {name: content(place / name) for name in COMMANDS[command][1]}
        for name in chosen.signals:
            row = {"command": command, "signal": name, "killed": 0, "ended before": 0, "problems": []}
            longest = 1.05 * seconds
            for case in range(3 * chosen.count):  # some end before the signal comes
                if row["killed"] == chosen.count:
                    break
                here = chosen.folder / f"{command}-{name}-{case}"
                found = kill(command, getattr(signal, name), inputs, here, moment.uniform(0, longest), whole)
                early = found["code"] != "0"
                row["killed" if early else "ended before"] += 1
                longest = min(1.05 * longest, 1.05 * seconds) if early else 0.9 * longest
                if found["problem"]:
                    row["problems"].append(found["problem"])
                else:
                    shutil.rmtree(here)
            print(json.dumps(row), flush=True)
            rows.append(row)
    sys.exit(any(row["problems"] for row in rows))


if __name__ == "__main__":
    main()
