from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

#: The third number of the key; 0 and 1 are those of the sampler's orders.
_KIND = 2


@contextmanager
def seeded_epoch(seed: int, epoch: int, accelerator: Any) -> Iterator[torch.Generator]:
    r"""Everything that is drawn in an epoch, from the seed, the epoch and the rank alone.

    A resumed run therefore needs no state of a generator, and the user's global ones are as they were afterwards.

    Args:
        seed (int): The seed of the run.
        epoch (int): The number of the epoch.
        accelerator (accelerate.Accelerator): The processes; each draws differently.

    Yields:
        torch.Generator: For augmentation. Inside the block the global generators, which dropout draws from, are seeded.
    """
    key = [seed, epoch, _KIND, accelerator.process_index]
    first, second = (int(x) >> 1 for x in np.random.SeedSequence(key).generate_state(2, np.uint64))
    device = accelerator.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(first)
        if device.type == "cuda":
            torch.cuda.manual_seed(first)
        yield torch.Generator().manual_seed(second)
