"""Which worker holds which neuron: balanced assignments of least cost, and partitions to begin with."""

from collections.abc import Sequence

import numpy as np
import scipy  # its parts load when they are used
from attrs import field, frozen

from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray

_SWEEPS = 5

Partition = tuple[IntArray, ...]  # for the input and the output of each layer the ``(neurons,)`` worker of each neuron


@frozen(eq=False)
class Workers:
    """The workers of a layer, and how many neurons each may hold."""

    shares: FloatArray  # `(workers,)` compute power of each, relative to the others
    tolerance: float = field(default=0.0)  # how far the neurons of a worker may be from its share, relative to that

    def __len__(self) -> int:
        return len(self.shares)

    def share(self, neurons: int) -> FloatArray:
        """Return ``(workers,)`` neurons of each, as fractions."""
        fair: FloatArray = neurons * self.shares / self.shares.sum()
        return fair

    def bounds(self, neurons: int) -> tuple[IntArray, IntArray]:
        """Return ``(workers,)`` least and most neurons of each."""
        # A share that is whole, but for rounding, allows exactly that.
        fair = np.round(self.share(neurons), 9)
        lower = np.floor(fair * (1 - self.tolerance)).astype(np.intp)
        return lower, np.minimum(np.ceil(fair * (1 + self.tolerance)).astype(np.intp), neurons)

    def contiguous(self, neurons: int) -> IntArray:
        """Return ``(neurons,)`` workers of the neurons in their own order."""
        return np.searchsorted(np.round(np.cumsum(self.share(neurons)) - 1e-9), np.arange(neurons), side="right")

    def assigned(self, costs: FloatArray) -> IntArray:
        """Return ``(neurons,)`` workers of least ``(neurons, workers)`` costs: linear sum assignment (Munkres)."""
        neurons = len(costs)
        self.check(neurons)
        lower, upper = self.bounds(neurons)
        # The same on all places of a worker, prices change no optimum. With them most neurons are at home at once.
        prices = _prices(costs, self.share(neurons))
        reduced = costs - prices
        wanted: IntArray = np.argmin(reduced, axis=1)
        if (lower == upper).all() and (np.bincount(wanted, minlength=len(self)) == upper).all():
            return wanted
        places = np.repeat(np.arange(len(self)), upper)
        matrix = np.empty((len(places), len(places)))
        np.take(reduced, places, axis=1, out=matrix[:neurons])
        # The other rows are empty places, which are not among those that must be filled.
        first = np.concatenate([np.arange(count) for count in upper])
        matrix[neurons:] = np.where(first < lower[places], np.inf, -prices[places])
        chosen: IntArray = places[scipy.optimize.linear_sum_assignment(matrix)[1][:neurons]]
        return chosen

    def check(self, neurons: int) -> None:
        if len(self) > neurons:
            message = f"{len(self)} workers for a layer of {neurons} neurons"
            raise InputError(message, key="workers", accepted=f"at most {neurons}")


def _prices(costs: FloatArray, places: FloatArray) -> FloatArray:
    """Return ``(workers,)`` prices at which about ``places`` neurons want each worker."""
    prices = np.zeros(costs.shape[1])
    if costs.shape[1] == 1:
        return prices
    for _ in range(_SWEEPS):
        for worker, count in enumerate(places):
            others = costs - prices
            others[:, worker] = np.inf
            gaps = np.sort(costs[:, worker] - others.min(axis=1))
            last = min(max(round(count), 1), len(gaps) - 1)
            prices[worker] = (gaps[last - 1] + gaps[last]) / 2
    return prices


def contiguous(widths: Sequence[int], workers: Sequence[Workers]) -> Partition:
    """Return the partition that leaves all neurons in their order, for the widths and workers of inputs and outputs."""
    return tuple(one.contiguous(width) for width, one in zip(widths, workers, strict=True))


def components(energies: Sequence[FloatArray], workers: Sequence[Workers]) -> Partition | None:
    """Return a partition in which connected neurons are together, or ``None`` where all neurons are connected.

    ``energies`` are the ``(outputs, inputs)`` weights of the connections of each layer; 0 is none. Large components go
    first, each to the worker with the most room.
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
    parts = zip(np.split(found, np.cumsum(widths)[:-1]), workers, strict=True)
    return tuple(one.assigned((homes[level][:, None] != np.arange(len(one))).astype(float)) for level, one in parts)


def spectral(energies: Sequence[FloatArray], workers: Sequence[Workers], seed: int = 0) -> Partition:
    """Return the balanced clusters of the eigenvectors of the normalised graph of the weights.

    All neurons are nodes (Ng, Jordan and Weiss, On spectral clustering, 2001); those of each layer are assigned to the
    clusters by squared distances. ``energies`` are as in ``components``; ``seed`` begins the search for eigenvectors.
    """
    widths = _widths(energies)
    if not any(one.any() for one in energies):  # no graph
        return contiguous(widths, workers)
    count = max(len(one) for one in workers)
    vectors = _eigenvectors(energies, count, seed)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(float).tiny)
    centres, _ = scipy.cluster.vq.kmeans2(vectors, _apart(vectors, count), minit="matrix", iter=50, missing="warn")
    distances = ((vectors[:, None, :] - centres) ** 2).sum(axis=2)
    parts = zip(np.split(distances, np.cumsum(widths)[:-1]), workers, strict=True)
    return tuple(one.assigned(level[:, : len(one)]) for level, one in parts)


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
