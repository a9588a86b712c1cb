"""Rows and components of a graph whose edges are sorted: passes over the edges instead of sorts."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def fill_rows(first, second, place, col, edge):  # type: ignore[no-untyped-def]
    """Writes the other node and the number of every edge to both of its rows, which begin at ``place`` [n].

    The edges are sorted by (first, second): the smaller neighbours of a node come in order when the edges are taken in
    theirs, and the larger ones after them. ``place`` is overwritten.
    """
    for e in range(first.size):
        at = place[second[e]]
        col[at], edge[at] = first[e], e
        place[second[e]] = at + 1
    for e in range(first.size):
        at = place[first[e]]
        col[at], edge[at] = second[e], e
        place[first[e]] = at + 1


@njit(nogil=True, cache=True)
def number_components(first, second, label):  # type: ignore[no-untyped-def]
    """Writes the component of every node to ``label`` [n], numbered by their smallest nodes: trees of nodes, whose
    roots are their smallest ones, are joined edge by edge."""
    root = np.arange(label.size)
    for e in range(first.size):
        a, b = first[e], second[e]
        while root[a] != a:
            root[a] = root[root[a]]
            a = root[a]
        while root[b] != b:
            root[b] = root[root[b]]
            b = root[b]
        if a < b:
            root[b] = a
        else:
            root[a] = b
    count = 0
    for i in range(label.size):
        if root[i] == i:
            label[i] = count
            count += 1
        else:  # what it hangs on is smaller, and numbered
            label[i] = label[root[i]]
