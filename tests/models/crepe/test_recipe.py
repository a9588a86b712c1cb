import re
from dataclasses import fields

import pytest

from tg_crepe import CrepePropagation, Recipe
from tg_crepe.solvers.ratio_flow import geometric_steps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eps": 0}, "'eps' must be a finite number > 0, got 0"),
        ({"eps": -1.0}, "'eps' must be"),
        ({"time_step": 0.0}, "'time_step' must be a finite number > 0, got 0.0"),
        ({"time": -0.4}, "'time' must be"),
        ({"normaliser": "linf"}, "'normaliser' must be one of 'l1', 'l2', 'median', 'degree_median', "),
        ({"max_steps": 1.5}, "'max_steps' must be an integer"),
        ({"inner_iterations": 0}, "'inner_iterations' must be an integer >= 1"),
        ({"reweight_rounds": -1}, "'reweight_rounds' must be an integer >= 0"),
        ({"growth": 1.0}, "'growth' must be > 1, got 1.0"),
        ({"binding_labels": 0}, "'binding_labels' must be a finite number > 0, got 0"),
        ({"largest_rate": 0.0}, "'largest_rate' must be a finite number > 0, got 0.0"),
        ({"volume_error": -0.5}, "'volume_error' must be a finite number > 0, got -0.5"),
        ({"pseudo_count": -1}, "'pseudo_count' must be a finite number > 0, got -1"),
        ({"shrinkage": "half"}, "'shrinkage' must be a finite number > 0, got 'half'"),
    ],
)
def test_bad_constants_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**options)
    with pytest.raises(ValueError, match=message):
        Recipe.paper(**options)


def test_every_constant_has_its_reason_in_the_docstring():
    documented = re.findall(r"^        (\w+) \(", Recipe.__doc__, flags=re.MULTILINE)
    assert documented == [field.name for field in fields(Recipe)]


@pytest.mark.parametrize("field", [f for f in fields(Recipe) if f.type in ("int", "float")], ids=lambda f: f.name)
def test_no_number_of_a_recipe_is_taken_unchecked(field):
    for bad in (-1, float("nan"), "1"):
        with pytest.raises(ValueError, match=f"'{field.name}' must be"):
            Recipe(**{field.name: bad})


@pytest.mark.parametrize("name", ["pseudo_count", "volume_error", "volume_scatter", "affinity_floor"])
def test_what_is_imagined_or_doubted_may_be_nothing(name):
    assert getattr(Recipe(**{name: 0}), name) == 0


def test_the_paper_s_recipe_is_one_flow_and_nothing_else():
    recipe = Recipe.paper(time_step=2.0)
    assert (recipe.normaliser, recipe.eps, recipe.time_step) == ("l1", 0.01, 2.0)
    assert (recipe.reweight_rounds, recipe.balancing_rounds) == (0, 0)
    assert recipe.has_constant_steps
    assert not Recipe().has_constant_steps
    assert CrepePropagation.paper().recipe == Recipe.paper()
    assert Recipe.paper(balancing_rounds=2).balancing_rounds == 2


def test_steps_add_up_to_the_length_and_their_ends_grow():
    steps = geometric_steps(8.0, 4, 2.0)
    assert steps == pytest.approx([1.0, 1.0, 2.0, 4.0])
    assert sum(geometric_steps(0.7, 6, 1.5)) == pytest.approx(0.7)
