import pytest
from recipe import command, experiments
from shared.page import fill


def test_a_part_of_a_page_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    before = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n<!-- begin y -->\nkept\n<!-- end y -->\n"
    page.write_text(before, encoding="utf-8")
    for text in ("new\n", "new"):
        fill(page, "x", text)
        assert page.read_text(encoding="utf-8") == before.replace("\nold\n", "\n\nnew\n\n")
    with pytest.raises(ValueError, match="begin z"):
        fill(page, "z", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_the_page_of_the_recipe_has_a_part_for_the_tables_that_it_shows():
    page = command.PAGE.read_text(encoding="utf-8")
    assert "ablation" in experiments.EXPERIMENTS
    for name in ("ablation", "verdict"):
        assert page.count(f"<!-- begin {name} -->") == page.count(f"<!-- end {name} -->") == 1
