"""Partitions of all neurons of a network to begin with: by components, by spectral clusters, in their own order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # its parts load when they are used

from fredfw.typing import FloatArray, IntArray
from fredfw_workload_repurpose.partition import Workers

Partition = tuple[IntArray, ...]
"""For the input and the output of each layer the ``(neurons,)`` worker of each neuron."""


def contiguous(widths: Sequence[int], workers: Sequence[Workers]) -> Partition:
    """Return the partition that leaves all neurons in their order.

    Args:
        widths: Neurons of the input, and of the output of each layer.
        workers: Workers of each of those.
    """
    return tuple(one.contiguous(width) for width, one in zip(widths, workers, strict=True))


def components(energies: Sequence[FloatArray], workers: Sequence[Workers]) -> Partition | None:
    """Return a partition in which connected neurons are together, or ``None`` where all neurons are connected.

    Args:
        energies: ``(outputs, inputs)`` weight of each connection of each layer; 0 is none.
        workers: Workers of the input, and of the output of each layer.

    Large components go first, each to the worker with the most room.
    """
    widths = _widths(energies)
    links = [scipy.sparse.coo_array(one) for one in energies]
    grid = [[None] * len(widths) for _ in widths]
    for number, link in enumerate(links):
        grid[number + 1][number] = link
    for number, width in enumerate(widths):
        grid[number][number] = scipy.sparse.coo_array((width, width))
    count, found = scipy.sparse.csgraph.connected_components(scipy.sparse.block_array(grid), directed=False)
    if count == 1:
        return None
    sizes = np.bincount(found)
    room = np.zeros(max(len(one) for one in workers))
    for one, width in zip(workers, widths, strict=True):
        room[: len(one)] += one.share(width)
    homes = np.zeros(count, dtype=np.intp)
    for component in np.argsort(-sizes, kind="stable"):
        homes[component] = np.argmax(room)
        room[homes[component]] -= sizes[component]
    return tuple(
        one.assigned((homes[level][:, None] != np.arange(len(one))).astype(float))
        for level, one in zip(np.split(found, _ends(widths)), workers, strict=True)
    )


def spectral(energies: Sequence[FloatArray], workers: Sequence[Workers], seed: int = 0) -> Partition:
    """Return the balanced clusters of the eigenvectors of the normalised graph of the weights.

    The graph has all neurons as nodes (Ng, Jordan and Weiss, On spectral clustering, 2001). Neurons of each layer are
    assigned to the clusters by their squared distances, balanced.

    Args:
        energies: See ``components``.
        workers: See ``components``.
        seed: Of the iteration that finds the eigenvectors.
    """
    widths = _widths(energies)
    if not any(one.any() for one in energies):  # no graph
        return contiguous(widths, workers)
    count = max(len(one) for one in workers)
    vectors = _eigenvectors(energies, count, seed)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(float).tiny)
    centres, _ = scipy.cluster.vq.kmeans2(vectors, _apart(vectors, count), minit="matrix", iter=50, missing="warn")
    distances = ((vectors[:, None, :] - centres) ** 2).sum(axis=2)
    return tuple(
        one.assigned(level[:, : len(one)])
        for level, one in zip(np.split(distances, _ends(widths)), workers, strict=True)
    )


def _eigenvectors(energies: Sequence[FloatArray], count: int, seed: int) -> FloatArray:
    """Return the ``(neurons, count)`` leading eigenvectors of the normalised adjacency."""
    widths = _widths(energies)
    degrees = np.zeros(sum(widths))
    ends = np.cumsum([0, *widths])
    for number, one in enumerate(energies):
        degrees[ends[number] : ends[number + 1]] += one.sum(axis=0)
        degrees[ends[number + 1] : ends[number + 2]] += one.sum(axis=1)
    scale = 1 / np.sqrt(np.where(degrees > 0, degrees, np.inf))

    def product(vector: FloatArray) -> FloatArray:
        scaled, result = np.ravel(vector) * scale, np.zeros(len(scale))
        for number, one in enumerate(energies):
            before, after = slice(*ends[number : number + 2]), slice(*ends[number + 1 : number + 3])
            result[before] += one.T @ scaled[after]
            result[after] += one @ scaled[before]
        result *= scale
        return result

    graph = scipy.sparse.linalg.LinearOperator((len(scale), len(scale)), matvec=product, dtype=float)
    start = np.random.default_rng(seed).standard_normal(len(scale))
    # A graph of layers is bipartite: each eigenvalue has its negative, of which nothing is learnt.
    vectors: FloatArray = scipy.sparse.linalg.eigsh(graph, k=count, which="LA", v0=start)[1]
    return vectors


def _apart(points: FloatArray, count: int) -> FloatArray:
    """Return ``count`` points, each as far as possible from those before."""
    chosen = [0]
    distances = ((points - points[0]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(distances)))
        distances = np.minimum(distances, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return points[chosen]


def _widths(energies: Sequence[FloatArray]) -> tuple[int, ...]:
    return (energies[0].shape[1], *(len(one) for one in energies))


def _ends(widths: Sequence[int]) -> IntArray:
    return np.cumsum(widths)[:-1]
