from __future__ import annotations

from dataclasses import dataclass

from tg_crepe._checks import check_choice, check_count, check_positive
from tg_crepe.training.augment import PRESETS as AUGMENTATIONS


@dataclass(frozen=True)
class TrainingConfig:
    r"""The settings of :class:`~tg_crepe.training.HybridTrainer`; a run is these, its data, network and source of
    pseudo-labels.

    The defaults are those of the hybrid framework's section in the paper where it states a value (``epochs``, ``k``,
    ``learning_rate`` with cosine annealing, ``weight_decay``), else ours; :func:`~tg_crepe.training.get_preset` says
    which is which.

    Args:
        epochs (int, optional): The number of epochs, the warm-up included. (default: :obj:`310`)
        warmup_epochs (int, optional): How many of them are supervised, before the first graph. (default: :obj:`10`)
        warmup_passes (int, optional): How often such an epoch goes through the labelled images.
            (default: :obj:`10`, as LaplaceNet counts)
        k (int, optional): The number of neighbours in the graph. (default: :obj:`20`)
        refresh_every (int, optional): The number of epochs that pseudo-labels are kept for. (default: :obj:`1`)
        warm_start (bool, optional): Whether an energy model starts from its last solution. (default: :obj:`False`:
            on digits it gained nothing)
        soft_targets (bool, optional): Whether the network learns the probabilities of a pseudo-label and not its
            class; class weights then follow their sums and not the counts of classes. For rare classes and findings,
            which no hard pseudo-label may have. (default: :obj:`False`)
        certainty_weight (bool, optional): Whether a pseudo-label weighs as much as it is certain, the :math:`\varphi`
            of the loss. (default: :obj:`True`)
        class_weight (bool, optional): Whether rare classes weigh more, the :math:`\beta` of the loss.
            (default: :obj:`True`)
        hold_out (bool, optional): Whether two more networks are warmed up on one half of the labels each, and tell how
            sure pseudo-labels may be, see :func:`~tg_crepe.training.callbacks.hold_out.temper`. It costs two more
            warm-ups and sets of pseudo-labels, and is meant for few labels: features that were trained on them make an
            energy too sure of itself. (default: :obj:`False`)
        align_classes (bool, optional): Whether pseudo-labels are moved to the class distribution of the labels, see
            :func:`~tg_crepe.training.alignment.align_classes`. (default: :obj:`False`)
        pseudo_weight (float, optional): The :math:`\gamma` of the loss. (default: :obj:`1.0`)
        batch_size (int, optional): The number of images in a step, over all processes. (default: :obj:`100`)
        labelled_per_batch (int, optional): How many of them are labelled. (default: :obj:`None`, half)
        learning_rate (float, optional): The first one; it falls to 0 as a cosine. (default: :obj:`0.05`)
        momentum (float, optional): That of Nesterov. (default: :obj:`0.9`)
        weight_decay (float, optional): Of all weights. (default: :obj:`2e-4`)
        augmentation (str, optional): :obj:`"none"`, :obj:`"weak"` or :obj:`"strong"`, see
            :meth:`~tg_crepe.training.Augment.preset`. (default: :obj:`"weak"`)
        flip (bool, optional): Whether an image may be mirrored. (default: :obj:`True`)
        mixup_alpha (float, optional): The parameter of :func:`~tg_crepe.training.mixup`.
            (default: :obj:`None`, no mixup)
        fine_tune (bool, optional): Whether a pretrained backbone (``timm:NAME``) learns too; without, its features are
            computed once, and only a linear head on them learns, without augmentation. (default: :obj:`False`)
        num_samples (int, optional): The number of augmented samples of an image in a step, see
            :func:`~tg_crepe.training.multi_sample`. (default: :obj:`1`)
        seed (int, optional): The seed of first weights, order, augmentation and dropout. (default: :obj:`0`)
    """

    epochs: int = 310
    warmup_epochs: int = 10
    warmup_passes: int = 10
    k: int = 20
    refresh_every: int = 1
    warm_start: bool = False
    soft_targets: bool = False
    certainty_weight: bool = True
    class_weight: bool = True
    hold_out: bool = False
    align_classes: bool = False
    pseudo_weight: float = 1.0
    batch_size: int = 100
    labelled_per_batch: int | None = None
    learning_rate: float = 5e-2
    momentum: float = 0.9
    weight_decay: float = 2e-4
    augmentation: str = "weak"
    flip: bool = True
    mixup_alpha: float | None = None
    fine_tune: bool = False
    num_samples: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        check_count("warmup_epochs", self.warmup_epochs, high=self.epochs, high_name="epochs")
        for name in ("warmup_passes", "k", "refresh_every", "num_samples"):
            check_count(name, getattr(self, name))
        check_count("batch_size", self.batch_size, low=2)
        if self.labelled_per_batch is not None:
            check_count(
                "labelled_per_batch", self.labelled_per_batch, high=self.batch_size - 1, high_name="batch_size - 1"
            )
        for name in ("pseudo_weight", "learning_rate"):
            check_positive(name, getattr(self, name))
        if not 0 < self.momentum < 1:
            raise ValueError(f"'momentum' must be in (0, 1), got {self.momentum!r}")
        if not 0 <= self.weight_decay < 1:
            raise ValueError(f"'weight_decay' must be in [0, 1), got {self.weight_decay!r}")
        if self.mixup_alpha is not None:
            check_positive("mixup_alpha", self.mixup_alpha)
        check_choice("augmentation", self.augmentation, AUGMENTATIONS)
        check_count("seed", self.seed, low=0)
