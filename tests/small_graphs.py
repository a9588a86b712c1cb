"""Graphs whose spectrum is known or easy to compute densely."""

import numpy as np
import torch
from helpers import dense_adjacency

from tg_crepe.graph import CanonicalGraph


def from_dense(w):
    row, col = np.triu(w, 1).nonzero()
    return CanonicalGraph(torch.from_numpy(np.stack([row, col])), torch.from_numpy(w[row, col]), len(w))


def dense_laplacian(graph):
    """I − D^{-1/2} W D^{-1/2}."""
    w = dense_adjacency(graph)
    root = np.sqrt(w.sum(axis=1))
    return np.eye(len(w)) - w / np.outer(root, root)


def disjoint(graphs):
    blocks = [dense_adjacency(graph) for graph in graphs]
    w = np.zeros((sum(map(len, blocks)),) * 2)
    start = 0
    for block in blocks:
        w[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return from_dense(w)


def path(num_nodes):
    return from_dense(np.diag(np.ones(num_nodes - 1), 1) + np.diag(np.ones(num_nodes - 1), -1))


def complete(num_nodes):
    return from_dense(np.ones((num_nodes, num_nodes)) - np.eye(num_nodes))


def cycle(num_nodes):
    shift = np.roll(np.eye(num_nodes), 1, axis=0)
    return from_dense(shift + shift.T)


def star(num_nodes):
    w = np.zeros((num_nodes, num_nodes))
    w[0, 1:] = w[1:, 0] = 1
    return from_dense(w)


def barbell(size):
    """Two cliques joined by one edge."""
    w = np.zeros((2 * size, 2 * size))
    w[:size, :size] = w[size:, size:] = 1
    np.fill_diagonal(w, 0)
    w[size - 1, size] = w[size, size - 1] = 1
    return from_dense(w)


def relabelled(graph, seed):
    label = np.random.default_rng(seed).permutation(graph.num_nodes)
    return from_dense(dense_adjacency(graph)[np.ix_(label, label)])
