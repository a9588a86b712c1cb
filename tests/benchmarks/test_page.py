import pytest
from shared.page import fill
from table1 import verdict


def test_a_part_of_a_page_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    before = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n<!-- begin y -->\nkept\n<!-- end y -->\n"
    page.write_text(before, encoding="utf-8")
    for text in ("new\n", "new"):
        fill(page, "x", text)
        assert page.read_text(encoding="utf-8") == before.replace("old", "new")
    with pytest.raises(ValueError, match="begin z"):
        fill(page, "z", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_the_page_of_the_recipe_has_a_part_for_the_table_that_it_shows():
    page = verdict.PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- begin verdict -->") == page.count("<!-- end verdict -->") == 1
