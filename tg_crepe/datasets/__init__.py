from tg_crepe.datasets.cbis_ddsm import load_cbis_ddsm
from tg_crepe.datasets.chestxray14 import load_chestxray14
from tg_crepe.datasets.chestxray14_subset import load_chestxray14_subset
from tg_crepe.datasets.cifar10 import load_cifar10
from tg_crepe.datasets.cifar10_subset import load_cifar10_subset
from tg_crepe.datasets.cifar100 import load_cifar100
from tg_crepe.datasets.digits import load_digits
from tg_crepe.datasets.fashion_mnist import load_fashion_mnist
from tg_crepe.datasets.graphlearning import load_graphlearning
from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.datasets.image_files import ImageFiles
from tg_crepe.datasets.image_folder import load_image_folder
from tg_crepe.datasets.medmnist import load_medmnist
from tg_crepe.datasets.mini_imagenet import load_mini_imagenet
from tg_crepe.datasets.npz import load_npz
from tg_crepe.datasets.registry import DATASETS, get_dataset
from tg_crepe.datasets.splits import LabelSplit, RandomLabelSplit
from tg_crepe.datasets.torch_dataset import from_torch_dataset
from tg_crepe.warnings import DatasetWarning

__all__ = [
    "DATASETS",
    "DatasetWarning",
    "ImageDataset",
    "ImageFiles",
    "LabelSplit",
    "RandomLabelSplit",
    "from_torch_dataset",
    "get_dataset",
    "load_cbis_ddsm",
    "load_chestxray14",
    "load_chestxray14_subset",
    "load_cifar10",
    "load_cifar10_subset",
    "load_cifar100",
    "load_digits",
    "load_fashion_mnist",
    "load_graphlearning",
    "load_image_folder",
    "load_medmnist",
    "load_mini_imagenet",
    "load_npz",
]
