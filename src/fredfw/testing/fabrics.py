"""What plugins are checked on: small fabrics that need no plugin, and groups of every shape without any fabric."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from attrs import evolve

from fredfw.fabric import Dimension, Fabric, NodeKind, ShortestPathRouter, product_fabric
from fredfw.fabric.view import KINDS, Capabilities, GroupLinks, GroupView, Kind, Level
from fredfw.typing import IntArray

_IN_NETWORK = Capabilities(reduces=True, multicasts=True)
BANDWIDTH = 100e9  # bytes per second of every link
LATENCY = 1e-6  # seconds of every link


def star(npus: int, controllers: int = 0) -> Fabric:
    """Return NPUs, controllers and a switch, the last node; link ``2 i`` leads up from node ``i``, ``2 i + 1`` down."""
    ends = npus + controllers
    kinds = np.repeat([NodeKind.NPU, NodeKind.CONTROLLER, NodeKind.SWITCH], [npus, controllers, 1])
    node, switch = np.arange(ends), np.full(ends, ends)
    return Fabric(
        name=f"star of {npus}",
        kinds=kinds,
        sources=np.stack([node, switch], axis=1).ravel(),
        destinations=np.stack([switch, node], axis=1).ravel(),
        bandwidths=BANDWIDTH,
        latencies=LATENCY,
        energies=0.0,
        levels=(Level(npus, "switch", BANDWIDTH, 2 * LATENCY),),
        coordinates=np.arange(npus)[:, None],
        offers=_IN_NETWORK,
        copies=kinds == NodeKind.SWITCH,
        reduces=kinds == NodeKind.SWITCH,
    )


def grid(*sizes: int, closed: bool = False) -> Fabric:
    """Return NPUs on a line, a mesh, or (``closed``) a ring or torus; links each way between neighbours."""
    kinds = ("line", "mesh"), ("ring", "torus")
    dimensions = [Dimension.of_links("ring" if closed else "line", size, BANDWIDTH, LATENCY) for size in sizes]
    name = f"{kinds[closed][len(sizes) > 1]} of {'x'.join(map(str, sizes))}"
    return product_fabric(dimensions, name).with_defaults(router=ShortestPathRouter())


def standard() -> tuple[Fabric, ...]:
    return star(8), grid(8, closed=True), grid(4, 2), grid(3, 3, closed=True)


def views(ranks: int) -> Iterator[tuple[str, GroupView]]:
    """Yield groups, named: no structure, one level of each kind, and all products of two or three; some shuffled."""
    yield "without levels", GroupView(ranks)
    yield "without levels, of a network that combines and copies", GroupView(ranks, capabilities=_IN_NETWORK)
    if ranks == 1:
        return
    yield "without levels, in servers of different sizes", GroupView(ranks, servers=_servers(ranks))
    for kind in KINDS:
        yield f"on a {kind}", _product((ranks,), (kind,))
    yield "on a ring of 4 lanes, shuffled", _product((ranks,), ("ring",), lanes=4, shuffled=True)
    for number, sizes in enumerate(_factors(ranks)):
        kinds = tuple(KINDS[(number + place) % len(KINDS)] for place in range(len(sizes)))
        shuffled = bool(number % 2)
        order = ", shuffled" * shuffled
        for name, chosen in ((" and ".join(kinds), kinds), ("rings", (KINDS[0],) * len(sizes))):
            yield f"of {'x'.join(map(str, sizes))} on {name}{order}", _product(sizes, chosen, shuffled=shuffled)


def _servers(ranks: int) -> IntArray:
    """Return the server of each rank, shuffled: of 1 rank, of 2, 3, ... and what is left."""
    filled = np.repeat(np.arange(ranks), np.arange(1, ranks + 1))[:ranks]
    return np.random.default_rng(0).permutation(filled)


def _factors(ranks: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write ``ranks`` as a product of two or three numbers, each of 2 or more."""
    for one in range(2, ranks // 2 + 1):
        if ranks % one == 0:
            yield one, ranks // one
            yield from ((one, *more) for more in _factors(ranks // one) if len(more) == 2)


def filled(*levels: Level, seed: int | None = None) -> GroupView:
    sizes = [level.size for level in levels]
    order = np.arange(np.prod(sizes, dtype=int))
    if seed is not None:
        order = np.random.default_rng(seed).permutation(order)
    return GroupView(len(order), levels, np.stack(np.unravel_index(order, sizes, order="F"), axis=1))


def _product(sizes: tuple[int, ...], kinds: tuple[Kind, ...], *, lanes: int = 1, shuffled: bool = False) -> GroupView:
    levels = tuple(  # of different bandwidth, as they are in practice
        Level(size, kind if size > 2 or kind != "ring" else "line", BANDWIDTH / (place + 1), LATENCY, lanes=lanes)
        for place, (size, kind) in enumerate(zip(sizes, kinds, strict=True))
    )
    offers = _IN_NETWORK if "switch" in kinds else Capabilities()
    view = filled(*levels, seed=0 if shuffled else None)
    assert view.coordinates is not None
    return evolve(view, capabilities=offers, find_links=partial(_links, levels, view.coordinates, offers))


def _links(levels: Sequence[Level], coordinates: IntArray, offers: Capabilities) -> GroupLinks | None:
    dimensions = [
        Dimension.of_links(level.kind, level.size, level.bandwidth, LATENCY * (1 + (level.kind == "switch")))
        for level in levels
    ]
    fabric = product_fabric(dimensions)
    switch = fabric.kinds == NodeKind.SWITCH
    members = np.ravel_multi_index(tuple(coordinates.T), [level.size for level in levels], order="F")
    return evolve(fabric, offers=offers, copies=switch, reduces=switch).view(members).links
