from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from tg_crepe.datasets.image_dataset import ImageDataset
from tg_crepe.training.features import probabilities
from tg_crepe.training.metrics import area_under_curve, error_rate, expected_calibration_error, pseudo_label_error


class Judge:
    r"""The one part of training that knows the true labels of unlabelled and of test images: its answers are logged,
    and nothing else is done with them.

    Args:
        dataset (ImageDataset): The data set.
    """

    def __init__(self, dataset: ImageDataset) -> None:
        self._train = dataset.targets[dataset.train]
        self._test = dataset.targets[dataset.test]
        self._multi_label = dataset.multi_label
        self._class_names = dataset.class_names

    def epoch(self, test_logits: Tensor | None, data: Data) -> dict[str, float | None]:
        r"""What is logged of an epoch.

        Args:
            test_logits (torch.Tensor, optional): The output of the network for the test images.
            data (Data): The state of the epoch.
        """
        row: dict[str, float | None] = {"error": None, "pseudo_error": None, "certainty": None}
        if test_logits is not None:
            prob = probabilities(test_logits.double(), self._multi_label)  # single precision ties what is near 1
            row["error"] = error_rate(prob, self._test)
            if self._multi_label:
                row["auc"] = area_under_curve(prob, self._test).average
        if data.get("pseudo_y") is not None and bool(data.pseudo_mask.any()):
            row["pseudo_error"] = pseudo_label_error(data.pseudo_y, self._train, data.pseudo_mask)
            row["certainty"] = float(data.certainty[data.pseudo_mask].double().mean())
        row["num_pseudo"] = int(data.pseudo_mask.sum()) if "pseudo_mask" in data else 0
        return row

    def final(self, test_logits: Tensor | None, data: Data) -> dict[str, Any]:
        """The same for the last model, with the areas under the curve and the calibration errors."""
        row: dict[str, Any] = self.epoch(test_logits, data)
        if test_logits is not None:
            prob = probabilities(test_logits.double(), self._multi_label)
            area = area_under_curve(prob, self._test)
            row["auc"] = area.average
            row["auc_per_class"] = {self._class_names[k]: value for k, value in area.per_class.items()}
            row["calibration_error"] = expected_calibration_error(prob, self._test)
        if row["pseudo_error"] is not None:
            unlabelled = data.pseudo_mask
            row["pseudo_calibration_error"] = expected_calibration_error(
                data.pseudo_prob[unlabelled].clamp(0, 1), self._train[unlabelled]
            )
        return row
