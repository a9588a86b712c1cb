import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from contest.questions import main  # noqa: E402

if __name__ == "__main__":
    main()
