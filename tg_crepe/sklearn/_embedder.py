from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from tg_crepe.embed import DEFAULT_MODELS, Encoder, embed, get_encoder, open_source


class Embedder(TransformerMixin, BaseEstimator):
    r"""Images or texts to features by a pretrained model, as the first step of a pipeline.

    .. code-block:: python

        from sklearn.pipeline import make_pipeline
        from tg_crepe.sklearn import CrepeClassifier, Embedder

        model = make_pipeline(Embedder("sentence-transformers:all-MiniLM-L6-v2"), CrepeClassifier())
        model.fit(texts, y)  # y is -1 where there is no label
        model.predict(new_texts)

    Args:
        model (str, path, torch.nn.Module, callable or Encoder, optional): See :func:`tg_crepe.embed.get_encoder`.
            (default: :obj:`None`, the default for what ``X`` holds)
        weights (path, optional): Weights of your own for it. (default: :obj:`None`)
        column (str, optional): The column of a frame that holds texts or images. (default: :obj:`None`)
        kind (str, optional): :obj:`"images"` or :obj:`"texts"`, for a function. (default: :obj:`None`)
        batch_size (int, optional): Items at a time. (default: :obj:`64`)
        device (str, optional): Where to compute. (default: :obj:`None`, a GPU if there is one)
        precision (str, optional): See :class:`tg_crepe.embed.Encoder`. (default: :obj:`"auto"`)

    Attributes:
        encoder_ (Encoder): The model.
        n_features_out_ (int): The number of features, known after the first :meth:`transform`.
    """

    def __init__(
        self,
        model: Any = None,
        weights: Any = None,
        column: str | None = None,
        kind: str | None = None,
        batch_size: int = 64,
        device: str | None = None,
        precision: str = "auto",
    ) -> None:
        self.model = model
        self.weights = weights
        self.column = column
        self.kind = kind
        self.batch_size = batch_size
        self.device = device
        self.precision = precision

    def fit(self, X: Any, y: Any = None) -> Embedder:
        """Loads the model; nothing is learned from ``X``.

        Args:
            X: A list of texts, of files of images or of images, a frame with a ``column`` of them, or whatever
                :func:`tg_crepe.embed.open_source` takes.
            y (optional): Not read.
        """
        self.encoder_: Encoder = self._load(X)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The features of ``X``, float32 of shape (n_samples, n_features)."""
        if not hasattr(self, "encoder_"):  # there is nothing to learn, so that one may begin here
            self.encoder_ = self._load(X)
        x = embed(X, self.encoder_, column=self.column).x
        self.n_features_out_ = x.shape[1]
        return x

    def _load(self, X: Any) -> Encoder:
        model = self.model
        if model is None:
            model = DEFAULT_MODELS[open_source(X, self.kind, self.column).kind]
        if isinstance(model, Encoder):
            return model
        options = {"batch_size": self.batch_size, "device": self.device, "precision": self.precision}
        return get_encoder(model, self.weights, **options, **({"kind": self.kind} if callable(model) else {}))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags
