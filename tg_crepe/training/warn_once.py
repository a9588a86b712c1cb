from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warn_once(seen: set[tuple[type[Warning], str]]) -> Iterator[None]:
    r"""Lets a warning through the first time only, whatever the numbers in it.

    The graph is built anew in every epoch; its recall, or its count of unreached nodes, is worth one line and not 310.

    Args:
        seen (set): What has been said; it is added to.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        key = (warning.category, re.sub(r"\d[\d.,]*", "#", str(warning.message)))
        if key not in seen:
            seen.add(key)
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
