"""``python -m tg_crepe`` is ``tg-crepe``."""

from tg_crepe.cli import main

if __name__ == "__main__":
    main()
