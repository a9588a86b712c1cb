from tg_crepe.training.augment import Augment, Cutout, RandAugment, RandomCrop, RandomFlip, mixup, multi_sample
from tg_crepe.training.callbacks import Callback, TrainingInterrupted
from tg_crepe.training.class_weights import ClassWeights
from tg_crepe.training.config import TrainingConfig
from tg_crepe.training.features import extract_features
from tg_crepe.training.graph_config import GraphTrainingConfig
from tg_crepe.training.graph_trainer import GraphTrainer
from tg_crepe.training.loss import HybridLoss, weighted_loss
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
from tg_crepe.training.node_network import neighbor_batches
from tg_crepe.training.presets import PRESETS, Preset, get_preset
from tg_crepe.training.sampler import MixedBatch, MixedBatchSampler
from tg_crepe.training.sources import EnergyLabels, LabelSource, NetworkLabels, NoLabels, resolve_source
from tg_crepe.training.trainer import HybridTrainer

__all__ = [
    "PRESETS",
    "AreaUnderCurve",
    "Augment",
    "Callback",
    "ClassWeights",
    "Cutout",
    "EnergyLabels",
    "GraphTrainer",
    "GraphTrainingConfig",
    "HybridLoss",
    "HybridTrainer",
    "LabelSource",
    "MixedBatch",
    "MixedBatchSampler",
    "NetworkLabels",
    "NoLabels",
    "Preset",
    "RandAugment",
    "RandomCrop",
    "RandomFlip",
    "ReliabilityCurve",
    "TrainingConfig",
    "TrainingInterrupted",
    "area_under_curve",
    "error_rate",
    "expected_calibration_error",
    "extract_features",
    "fit_temperature",
    "get_preset",
    "mixup",
    "multi_sample",
    "neighbor_batches",
    "pseudo_label_error",
    "reliability_curve",
    "resolve_source",
    "weighted_loss",
]
