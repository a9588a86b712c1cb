"""What every process of a run does: it keeps gradients, indices and last weights for ``test_processes.py``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.optim.optimizer import register_optimizer_step_pre_hook
from training_runs import CONFIG, Watched, blobs, labelled

from tg_crepe.nn import get_backbone
from tg_crepe.training import HybridTrainer


def train(out: Path) -> None:
    gradients: list[torch.Tensor] = []
    indices: list[list[int]] = []

    def keep(optimizer: torch.optim.Optimizer, *_: object) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        gradients.append(torch.cat([p.grad.flatten() for p in parameters]).clone())

    hook = register_optimizer_step_pre_hook(keep)
    accelerator = Accelerator(cpu=True)
    # Without a norm the loss of an image does not depend on the rest of its batch, which two processes share.
    network = get_backbone("small_cnn", 1, 3, 8, seed=0, norm=False)
    dataset = Watched.watch(blobs(), lambda step, index: indices.append(index.tolist()))
    config = replace(CONFIG, augmentation="none")
    trainer = HybridTrainer(dataset, labelled(), network, config=config, run=out / "run", accelerator=accelerator)
    result = trainer.fit()
    hook.remove()
    network = get_backbone("small_cnn", 1, 3, 8, seed=0, norm=False)
    config = replace(config, epochs=2, hold_out=True)
    judged = HybridTrainer(blobs(), labelled(), network, config=config, accelerator=accelerator).fit()
    content = {
        "processes": accelerator.num_processes,
        "gradients": gradients,
        "indices": indices[: len(gradients)],  # the main process looks at some images again at the end
        "weights": result.model.state_dict(),
        "losses": [row["loss"] for row in result.history],
        "pseudo_y": result.data.pseudo_y,
        "certainty": judged.data.certainty,
    }
    torch.save(content, out / f"rank{accelerator.process_index}.pt")


if __name__ == "__main__":
    train(Path(sys.argv[1]))
