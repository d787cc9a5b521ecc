"""Groups as algorithms see them, of every shape that a number of ranks can have, without any fabric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fredfw.fabric import Capabilities, Fabric, GroupLinks, GroupView, Level, NodeKind
from fredfw.fabric.view import KINDS, Kind
from fredfw.testing.fabrics import BANDWIDTH, LATENCY
from fredfw.typing import IntArray

_IN_NETWORK = Capabilities(reduces=True, multicasts=True)
_LANES = 4


def views(ranks: int) -> Iterator[tuple[str, GroupView]]:
    """Yield groups of ``ranks``, with a name: no structure, one level of each kind, and all products of two or three.

    In every other one the ranks are in an order of their own, as groups need not be in the order of NPUs.
    """
    yield "without levels", GroupView(ranks)
    yield "without levels, of a network that combines and copies", GroupView(ranks, capabilities=_IN_NETWORK)
    if ranks == 1:
        return
    yield "without levels, in servers of different sizes", GroupView(ranks, servers=_servers(ranks))
    for kind in KINDS:
        yield f"on a {kind}", _product((ranks,), (kind,))
    yield f"on a ring of {_LANES} lanes, shuffled", _product((ranks,), ("ring",), lanes=_LANES, shuffled=True)
    for number, sizes in enumerate(_factors(ranks)):
        levels = tuple(KINDS[(number + place) % len(KINDS)] for place in range(len(sizes)))
        rings = (KINDS[0],) * len(sizes)
        for name, chosen in ((" and ".join(levels), levels), ("rings", rings)):
            shuffled = bool(number % 2)
            yield (
                f"of {'x'.join(map(str, sizes))} on {name}{', shuffled' * shuffled}",
                _product(sizes, chosen, shuffled=shuffled),
            )


def _servers(ranks: int) -> IntArray:
    """Return the server of each rank: of 1 rank, of 2, 3, ... and what is left, in an order of their own."""
    sizes = np.arange(1, ranks + 1)
    filled = np.repeat(np.arange(ranks), sizes)[:ranks]
    return np.random.default_rng(0).permutation(filled)


def _factors(ranks: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write ``ranks`` as a product of two or three numbers, each of 2 or more."""
    for one in range(2, ranks // 2 + 1):
        rest, remainder = divmod(ranks, one)
        if remainder:
            continue
        yield one, rest
        yield from ((one, *more) for more in _factors(rest) if len(more) == 2)


def _product(
    sizes: tuple[int, ...],
    kinds: tuple[Kind, ...],
    *,
    lanes: int = 1,
    shuffled: bool = False,
) -> GroupView:
    ranks = int(np.prod(sizes))
    coordinates = np.stack(np.unravel_index(np.arange(ranks), sizes, order="F"), axis=1)
    if shuffled:
        coordinates = np.random.default_rng(0).permutation(coordinates)
    # Levels of different bandwidth, as they are in practice.
    levels = tuple(
        Level(size, kind if size > 2 or kind != "ring" else "line", BANDWIDTH / (place + 1), LATENCY, lanes=lanes)
        for place, (size, kind) in enumerate(zip(sizes, kinds, strict=True))
    )
    offers = _IN_NETWORK if "switch" in kinds else Capabilities()
    return GroupView(ranks, levels, coordinates, offers, find_links=partial(_links, levels, coordinates, offers))


def _links(levels: Sequence[Level], coordinates: IntArray, offers: Capabilities) -> GroupLinks | None:
    """Return the links of a product: in each level, among those that differ in it alone."""
    kinds = [NodeKind.NPU] * len(coordinates)
    links: list[tuple[int, int, float]] = []
    for place, level in enumerate(levels):
        rest = np.delete(coordinates, place, axis=1)
        _, line = np.unique(rest, axis=0, return_inverse=True)
        for number in range(int(line.max()) + 1):
            ranks = np.flatnonzero(line.ravel() == number)
            ranks = ranks[np.argsort(coordinates[ranks, place])].tolist()
            if level.kind == "switch":
                kinds.append(NodeKind.SWITCH)
                pairs = [(rank, len(kinds) - 1) for rank in ranks]
            elif level.kind == "fully-connected":
                pairs = [(one, other) for at, one in enumerate(ranks) for other in ranks[at + 1 :]]
            else:
                around = len(ranks) if level.kind == "ring" and len(ranks) > 2 else len(ranks) - 1
                pairs = [(ranks[at], ranks[(at + 1) % len(ranks)]) for at in range(around)]
            links += [(*pair, level.bandwidth) for one, other in pairs for pair in ((one, other), (other, one))]
    sources, destinations, bandwidths = zip(*links, strict=True)
    switch = np.array(kinds) == NodeKind.SWITCH
    fabric = Fabric(
        "product", kinds, sources, destinations, bandwidths, LATENCY, 0.0, offers=offers, copies=switch, reduces=switch
    )
    return fabric.view().links
