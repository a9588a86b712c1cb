import pytest

import tg_crepe
from tg_crepe import EnergyModel, get_energy_model
from tg_crepe.models import ENERGY_MODELS


@pytest.mark.parametrize("name", sorted(ENERGY_MODELS))
def test_every_name_makes_its_model(name):
    model = get_energy_model(name)
    assert isinstance(model, EnergyModel)
    assert type(model) is getattr(tg_crepe, ENERGY_MODELS[name])
    assert type(model).__module__.startswith(f"tg_crepe.models.{name}")


@pytest.mark.parametrize("name", sorted(ENERGY_MODELS))
def test_options_of_all_models_are_passed_on(name):
    model = get_energy_model(name, soft_label="relative", symmetrize="mean", bind_volume="uniform")
    assert (model.soft_label, model.symmetrize, model.bind_volume) == ("relative", "mean", "uniform")


def test_options_of_one_model_are_passed_on():
    assert repr(get_energy_model("lgc", alpha=0.5, balanced=True)) == "LGC(alpha=0.5, balanced=True)"
    with pytest.raises(TypeError, match="unexpected keyword argument 'alpha'"):
        get_energy_model("harmonic", alpha=0.5)


def test_an_unknown_name_lists_the_valid_ones():
    with pytest.raises(ValueError, match=r"'name' must be one of 'crepe', 'harmonic', .*'nearest_neighbor', got 'knn'"):
        get_energy_model("knn")
