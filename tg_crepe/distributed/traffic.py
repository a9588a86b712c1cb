from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Traffic:
    """What a process has told the others.

    Args:
        exchanges (int): Halo exchanges.
        bytes_sent (int): Bytes of own rows sent in them.
        bytes_received (int): Bytes of halo rows received in them.
        reductions (int): Sums and maxima over all processes.
        bytes_reduced (int): Their size.
    """

    exchanges: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    reductions: int = 0
    bytes_reduced: int = 0

    def since(self, before: Traffic) -> Traffic:
        """What was added since a copy was made."""
        return Traffic(**{name: value - getattr(before, name) for name, value in vars(self).items()})
