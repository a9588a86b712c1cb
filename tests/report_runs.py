"""Small runs on disk that the tests of the report share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tg_crepe.runs import RunFolder, RunResult
from tg_crepe.solvers.trace import Trace

#: A class that would be a program if the page did not show it as text.
NASTY = "<script>window.broken = 1</script>"
NAMES = (NASTY, "b & \"c\" 'd'", "$x$ 猫", "plain")
NASTY_ID = "<img src=x onerror='window.broken=2'>.png"


def write_run(
    path: Path,
    images: bool = True,
    truth: bool = True,
    multi_label: bool = False,
    flow: bool = True,
    graph: bool = True,
    epochs: int = 3,
    num_nodes: int = 300,
    channels: int = 3,
) -> RunFolder:
    """A run of four classes on four noisy blobs, with or without its parts; 40 nodes are labelled, one is unreached."""
    rng = np.random.default_rng(0)
    kind = np.arange(num_nodes) % 4
    position = np.stack([kind % 2, kind // 2], axis=1) + 0.3 * rng.standard_normal((num_nodes, 2))
    score = 3 * np.eye(4)[kind] + rng.standard_normal((num_nodes, 4))
    prob = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    label: np.ndarray = prob.argmax(axis=1)
    true: np.ndarray = kind.copy()
    certainty = 1 + (prob * np.log(prob)).sum(axis=1) / np.log(4)
    if multi_label:
        prob = 1 / (1 + np.exp(1 - score))
        label, true = (prob > 0.5).astype(int), np.eye(4, dtype=int)[kind]
        true[::7, 1] = -1
        certainty = np.abs(2 * prob - 1).mean(axis=1)
    reached = np.ones(num_nodes, bool)
    reached[-1] = False
    if not multi_label:
        label[-1] = -1
    kept = np.arange(0, num_nodes - 1, 2)
    moments = {
        "flow_node": kept,
        "flow_time": np.array([0.25, 0.5, 1.0], np.float32),
        "flow_u": np.stack([share * score[kept] - score[kept].mean() for share in (0.2, 0.6, 1.0)]).astype(np.float16),
    }
    ids = np.array([f"image {i}.png" for i in range(num_nodes)], dtype="<U60")
    ids[100] = NASTY_ID
    run = RunFolder.create(path, "propagate", {"k": 5, "note": "a </script> in a setting", "nothing": None}, seed=7)
    run.write_result(
        RunResult(
            ids=ids,
            label=label,
            prob=prob.astype(np.float32),
            certainty=certainty.astype(np.float32),
            reached=reached,
            labelled=np.arange(num_nodes) < 40,
            class_names=np.array(NAMES),
            position=position.astype(np.float32) if flow else None,
            truth=true if truth else None,
            **(moments if flow else {}),
        )
    )
    if graph:
        here = np.arange(num_nodes - 1)
        edges = np.concatenate([np.stack([here, (here + step) % (num_nodes - 1)]) for step in (4, 8)], axis=1)
        run.write_graph(edges, np.ones(edges.shape[1], np.float32), num_nodes)
    trace = Trace()
    for step in range(4):
        trace.append(step=step, energy=np.array([0.4, 0.3]) / (step + 1), sum_of_ratios=0.2 / (step + 1))
    run.write_trace(trace)
    for epoch in range(1, epochs + 1):
        run.append_metrics(epoch=epoch, error=0.5 / epoch, pseudo_error=None if epoch == 1 else 0.4 / epoch)
    if images:
        node = np.arange(0, num_nodes, 3)
        pixels = rng.integers(0, 256, (len(node), channels, 16, 12), dtype=np.uint8)
        run.write_thumbnails(node, pixels)
    run.finish("converged")
    return run
