from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("run_shell_blocks", ROOT / "docs" / "run_shell_blocks.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def write(folder: Path, *blocks: str) -> Path:
    page = folder / "page.md"
    page.write_text("# Page\n\n" + "\n\n".join(blocks) + "\n\n```python\nraise SystemExit\n```\n")
    return page


def test_blocks_run_in_order_and_stay_in_their_folder(runner, tmp_path):
    page = write(
        tmp_path,
        "```bash\nmkdir inner && cd inner\necho one > a.txt\n```",
        "<!-- not run: it takes hours -->\n```bash\nrm a.txt\n```",
        "```bash\ngrep one a.txt\n```",
    )
    assert [block.reason for block in runner.shell_blocks(page)] == [None, "it takes hours", None]
    lines = runner.run_page(page, tmp_path, dict(os.environ), 60)
    assert [line.split()[0] for line in lines] == ["ran", "not", "ran"]
    assert "page.md:4 mkdir inner && cd inner" in lines[0]
    assert lines[1].endswith("(it takes hours)")
    assert (tmp_path / "inner" / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    ("code", "problem"),
    [("false\necho on", "exit code 1"), ("false | cat", "exit code 1"), ("echo $NOBODY", "exit"), ("sleep 30", "0 s")],
)
def test_the_first_failure_ends_a_page(runner, tmp_path, code, problem):
    page = write(tmp_path, f"```bash\n{code}\n```", "```bash\ntouch later\n```")
    environment = {name: value for name, value in os.environ.items() if name != "NOBODY"}
    lines = runner.run_page(page, tmp_path, environment, 0.3 if code.startswith("sleep") else 60)
    assert len(lines) == 1
    assert lines[0].startswith("FAILED")
    assert problem in lines[0]
    assert not (tmp_path / "later").exists()


def test_the_pages_are_found_and_few_of_their_blocks_are_left_out(runner):
    blocks = {page.name: runner.shell_blocks(page) for page in runner.pages_with_blocks()}
    assert {"README.md", "tutorial.md"} <= set(blocks)
    assert next(iter(blocks)) == "README.md"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(blocks["README.md"]) == text.count("```bash")
    left_out = [block for page in blocks.values() for block in page if block.reason is not None]
    assert all(len(block.reason) > 10 for block in left_out)
    assert len(left_out) < sum(map(len, blocks.values())) / 2
