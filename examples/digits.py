"""Handwritten digits (scikit-learn's 1,797 images of 8x8 pixels), five labels per class, on a CPU.

The paper has no figure for this data set; ours are in ``benchmarks/results/hybrid_digits.md``.

Run ``python examples/digits.py`` (a minute), and ``--energy lgc | network | none`` for the baselines.
"""

from __future__ import annotations

from _common import main

from tg_crepe.datasets import load_digits

if __name__ == "__main__":
    main("digits", __doc__, lambda root, size, whole: load_digits(), load_digits)
