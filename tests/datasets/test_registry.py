import pytest

from tg_crepe.datasets import DATASETS, get_dataset


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "digits"])
def test_every_data_set_looks_for_its_files_below_the_root(name, tmp_path):
    root = tmp_path / "absent.npz" if name == "npz" else tmp_path
    expected = ValueError if name == "image_folder" else FileNotFoundError
    with pytest.raises(expected, match=str(tmp_path)):
        get_dataset(name, root)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'name' must be one of 'digits', 'fashion_mnist'.*got 'mnist'"):
        get_dataset("mnist", ".")


def test_a_root_is_needed_unless_the_data_are_embedded():
    with pytest.raises(ValueError, match="'root' of 'cifar10' must say where its files are, got None"):
        get_dataset("cifar10")
    with pytest.raises(ValueError, match="'root' of 'digits' must not be given"):
        get_dataset("digits", ".")


def test_options_reach_the_loader(fashion_root):
    assert len(get_dataset("fashion_mnist", fashion_root, verify=False)) == 30


@pytest.mark.parametrize("root", ["", 3])
def test_a_root_that_is_no_path_is_refused(root):
    with pytest.raises(ValueError, match="'root' must be the path of a folder"):
        get_dataset("cifar10", root)


def test_a_root_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"'root' must be a folder that exists, got .*absent"):
        get_dataset("cifar10", tmp_path / "absent")
