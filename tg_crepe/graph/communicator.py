from __future__ import annotations

from typing import Protocol, TypeVar

from torch import Tensor

Self = TypeVar("Self", bound="Communicator")


class Exchange(Protocol):
    """Values of other ranks on their way."""

    def wait(self) -> None:
        """Returns when they are there."""
        ...


class Communicator(Protocol):
    r"""What the parts of a graph that several processes share must tell each other.

    A rank owns some nodes and knows the neighbours of these that other ranks own, its *halo*. A tensor of nodes has one
    row for each of its own nodes; behind a product with the weight matrix, or on the far side of an edge, stand own
    and halo rows, in this order. With one process there is no halo, and everything here is the identity: see
    :data:`ALONE`.

    Attributes:
        rank (int): The number of this process.
        world_size (int): How many there are.
        num_halo (int): The number of halo rows.
        number (torch.Tensor, optional): A number for own and halo nodes that all ranks know them by, of shape
            :obj:`[num_nodes + num_halo]`; :obj:`None` for one process, where it is the position.
    """

    rank: int
    world_size: int
    num_halo: int
    number: Tensor | None

    def sum(self, x: Tensor) -> Tensor:
        """The sum of a small tensor over the ranks, the same bits on all of them."""
        ...

    def sums(self, *x: Tensor) -> tuple[Tensor, ...]:
        """The sums of several small tensors of one type over the ranks, in one message."""
        ...

    def gather(self, x: Tensor) -> tuple[Tensor, int]:
        """A short 1-D tensor of all ranks, one after the other, and where that of this one begins."""
        ...

    def max(self, x: Tensor) -> Tensor:
        """The largest of every entry over the ranks."""
        ...

    def union(self, x: Tensor) -> Tensor:
        """The different values of a short 1-D tensor on any rank, ascending."""
        ...

    def halo(self, x: Tensor) -> Tensor:
        """Own and halo rows from own rows."""
        ...

    def exchange(self, own: Tensor, halo: Tensor) -> Exchange:
        """Begins to fill the rows of ``halo`` from the ``own`` rows of other ranks; the caller can go on meanwhile."""
        ...

    def reorder(self: Self, order: Tensor) -> Self:
        """The same with the own nodes in another order."""
        ...

    def restrict(self: Self, keep: Tensor) -> tuple[Self, Tensor]:
        """The same for the own nodes where ``keep`` holds, and ``keep`` for own and halo nodes."""
        ...


class _Arrived:
    def wait(self) -> None:
        """Nothing was under way."""


class _Alone:
    """One process."""

    rank = 0
    world_size = 1
    num_halo = 0
    number: Tensor | None = None

    def sum(self, x: Tensor) -> Tensor:
        """The tensor itself."""
        return x

    def sums(self, *x: Tensor) -> tuple[Tensor, ...]:
        """The tensors themselves."""
        return x

    def gather(self, x: Tensor) -> tuple[Tensor, int]:
        """The tensor itself, which begins where all do."""
        return x, 0

    def max(self, x: Tensor) -> Tensor:
        """The tensor itself."""
        return x

    def union(self, x: Tensor) -> Tensor:
        """Its different values."""
        return x.unique()

    def halo(self, x: Tensor) -> Tensor:
        """The tensor itself."""
        return x

    def exchange(self, own: Tensor, halo: Tensor) -> Exchange:
        """Nothing to do."""
        return _Arrived()

    def reorder(self, order: Tensor) -> _Alone:
        """No order matters."""
        return self

    def restrict(self, keep: Tensor) -> tuple[_Alone, Tensor]:
        """Nobody else has to know."""
        return self, keep


#: The communicator of a graph that one process holds.
ALONE = _Alone()
