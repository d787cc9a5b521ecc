"""Groups as algorithms see them, of every shape that a number of ranks can have, without any fabric."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fredfw.fabric import Capabilities, GroupView, Level
from fredfw.fabric.view import KINDS, Kind
from fredfw.testing.fabrics import BANDWIDTH, LATENCY

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
    return GroupView(ranks, levels, coordinates, _IN_NETWORK if "switch" in kinds else Capabilities())
