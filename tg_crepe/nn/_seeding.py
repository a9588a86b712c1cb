from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds the global generator inside the block alone, for code that takes no generator of its own.

    Only the generator of the CPU: layers and torchvision's transforms draw there, and ``torch.manual_seed`` would
    reseed every GPU beside it.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
