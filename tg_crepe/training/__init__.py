from tg_crepe.training.augment import Augment, Cutout, RandAugment, RandomCrop, RandomFlip, mixup, multi_sample
from tg_crepe.training.features import extract_features
from tg_crepe.training.loss import ClassWeights, HybridLoss, weighted_loss
from tg_crepe.training.metrics import (
    AreaUnderCurve,
    ReliabilityCurve,
    area_under_curve,
    error_rate,
    expected_calibration_error,
    fit_temperature,
    pseudo_label_error,
    reliability_curve,
)
from tg_crepe.training.sampler import MixedBatch, MixedBatchSampler

__all__ = [
    "AreaUnderCurve",
    "Augment",
    "ClassWeights",
    "Cutout",
    "HybridLoss",
    "MixedBatch",
    "MixedBatchSampler",
    "RandAugment",
    "RandomCrop",
    "RandomFlip",
    "ReliabilityCurve",
    "area_under_curve",
    "error_rate",
    "expected_calibration_error",
    "extract_features",
    "fit_temperature",
    "mixup",
    "multi_sample",
    "pseudo_label_error",
    "reliability_curve",
    "weighted_loss",
]
