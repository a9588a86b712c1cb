from __future__ import annotations

import numpy as np


def principal_plane(x: np.ndarray) -> np.ndarray:
    r"""The positions of rows in the plane in which they vary most, of shape :obj:`[num_rows, 2]` in single precision.

    .. math::
        (\mathbf{x}_i - \bar{\mathbf{x}})^\top (\mathbf{v}_1, \mathbf{v}_2),

    where :math:`\mathbf{v}_1, \mathbf{v}_2` are the leading eigenvectors of the covariance, each with its largest entry
    positive, so that the map is the same everywhere. What has one dimension lies on a line.

    Args:
        x (numpy.ndarray): Rows of shape :obj:`[num_rows, num_columns]`; rows that are not finite lie at the mean.
    """
    rows = np.array(x, dtype=np.float64)
    odd = ~np.isfinite(rows).all(axis=1)
    rows[odd] = 0
    rows -= rows.sum(axis=0) / max(int((~odd).sum()), 1)
    rows[odd] = 0
    _, vectors = np.linalg.eigh(rows.T @ rows)
    axes = vectors[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    plane = np.zeros((len(rows), 2), dtype=np.float32)
    plane[:, : axes.shape[1]] = rows @ axes
    return plane
