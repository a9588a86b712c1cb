import sys
from pathlib import Path

# The benchmarks import each other from their folder, which is no package.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
