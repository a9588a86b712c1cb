"""Types what README and the documentation tell a reader to type, and says what became of it.

Every page gets a new copy of the project, and its shell blocks run there one after the other, in a new environment with
the project installed. A block that is not to be run has its reason in the line above it::

    <!-- not run: it takes hours -->

Run ``python docs/run_shell_blocks.py``, or ``python docs/run_shell_blocks.py README.md --python PATH`` for some pages
in an environment that is there, into which nothing is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n\n?)?^```(?:bash|sh|shell|console)[^\n]*\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class ShellBlock:
    """A block of a page: the line it starts in, what is to be typed, and why it is not run (None: it is)."""

    line: int
    code: str
    reason: str | None


def shell_blocks(page: Path) -> list[ShellBlock]:
    """The shell blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        ShellBlock(text[: found.start("code")].count("\n") + 1, found["code"], found["reason"])
        for found in _BLOCK.finditer(text)
    ]


def pages_with_blocks() -> list[Path]:
    """README first, as a reader comes by it, then the documentation."""
    return [page for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if shell_blocks(page)]


def run_page(page: Path, folder: Path, environment: dict[str, str], seconds: float) -> list[str]:
    """Runs the blocks of a page, each in the folder where the last one ended, up to the first that fails.

    Args:
        page (Path): The page.
        folder (Path): Where the first block starts.
        environment (dict): The variables.
        seconds (float): The time that a block may take.

    Returns:
        list: A line for every block; one that begins with ``FAILED`` is the last.
    """
    lines = []
    for block in shell_blocks(page):
        title = f"{page.name}:{block.line} {block.code.strip().splitlines()[0]}"
        if block.reason is not None:
            lines.append(f"not run  {title} ({block.reason})")
            continue
        start = time.monotonic()
        problem, folder = _run(block.code, folder, environment, seconds)
        took = f"{time.monotonic() - start:.0f} s"
        lines.append(f"ran      {title} ({took})" if problem is None else f"FAILED   {title} ({took}): {problem}")
        if problem is not None:
            break
    return lines


def _run(code: str, folder: Path, environment: dict[str, str], seconds: float) -> tuple[str | None, Path]:
    """What went wrong with a block, if anything, and the folder in which it ended."""
    with tempfile.NamedTemporaryFile("r", suffix=".pwd") as where:
        script = f"{code}\npwd > {where.name}\n"
        shell = ["bash", "-euo", "pipefail", "-c", script]
        process = subprocess.Popen(shell, cwd=folder, env=environment, start_new_session=True)
        try:
            code_of_exit = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the shell and what it has started
            process.wait()
            return f"not done after {seconds:.0f} s", folder
        if code_of_exit != 0:
            return f"exit code {code_of_exit}", folder
        return None, Path(where.read().strip())


def _copy_project(target: Path) -> None:
    """The files that a new clone would have, and those that are not committed yet."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)


def _environment(work: Path, python: Path | None) -> dict[str, str]:
    """The variables of a reader who has just made an environment, or who has one."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "TG_CREPE_DATA")
    variables = {name: value for name, value in os.environ.items() if name not in dropped}
    if python is None:
        subprocess.run([sys.executable, "-m", "venv", str(work / "venv")], check=True)
        folders = [work / "venv" / "bin"]
    else:
        pip = work / "bin" / "pip"
        pip.parent.mkdir()
        pip.write_text('#!/bin/sh\necho "pip $* (left out: the environment was given)"\n')
        pip.chmod(0o755)
        folders = [pip.parent, python.absolute().parent]
    return {**variables, "PATH": os.pathsep.join([*map(str, folders), variables["PATH"]])}


def main() -> int:
    """Runs the pages of the command line; 1 where a block failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="the pages (all that have shell blocks)")
    parser.add_argument("--python", type=Path, help="the Python of an environment that has the project")
    parser.add_argument("--seconds", type=float, default=1800, help="the time that a block may take")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        environment = _environment(work, options.python)
        for number, page in enumerate(options.pages or pages_with_blocks()):
            project = work / f"page{number}" / "tg_crepe"
            _copy_project(project)
            # An editable installation points at the copy that it was made from, so every page installs its own.
            subprocess.run(["pip", "install", "--quiet", "-e", ".[all]"], cwd=project, env=environment, check=True)
            lines += run_page(page, project, environment, options.seconds)
    print("\n".join(["", *lines]))
    return int(any(line.startswith("FAILED") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
