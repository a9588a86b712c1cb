import sys
from pathlib import Path

# The benchmarks are scripts beside each other, not a package.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
