"""The collective algorithm ``swing``: exchanges at distances 1, 1, 3, 5, 11, ... that swing from side to side."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Pattern, Phase, Schedule, in_series, units
from fredfw.typing import IntArray

fredfw_contract = 2

_MOST = 8192  # trees take the square of so many bytes
# Ranks that send, and first and number of the places of what they send; a rank may be there more than once.
_Runs = tuple[IntArray, IntArray, IntArray]


@frozen
class Swing(CollectiveAlgorithm):
    """Halving and doubling with partners that are nearer on a ring or torus than those at powers of two.

    At step s a rank exchanges with the one at distance (1 - (-2)^(s + 1)) / 3: 1, -1, 3, -5, 11, ... to the right of an
    even position, to the left of an odd one. A reduce-scatter takes log2 n steps, an all-gather goes the way back, an
    all-reduce is both, or (``latency``) exchanges all data at each of log2 n steps. On a torus of D dimensions the
    steps go through the dimensions in turn; 2 D parts of the data start at each dimension and in both directions, so
    that all links of a rank are in use. Fits groups with an even number of positions in each dimension, and with powers
    of two for ``latency`` (De Sensi et al., "Swing: Short-cutting Rings for Higher Bandwidth Allreduce", NSDI 2024; the
    parts here go in lock step).
    """

    name: ClassVar[str] = "swing"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
    proportional: ClassVar[bool] = True

    method: str = units.choice(
        ("bandwidth", "latency"),
        help="of an all-reduce: bandwidth moves the fewest bytes, latency takes the fewest steps",
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        return [cls(), cls(method="latency")] if pattern is Pattern.ALL_REDUCE else [cls()]

    def served_patterns(self) -> frozenset[Pattern]:
        return self.patterns if self.method == "bandwidth" else frozenset({Pattern.ALL_REDUCE})

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if view.unstructured:
            return view.unstructured
        for level in view.levels:
            if self.method == "latency" and not _is_power_of_two(level.size):
                return f"the group has {level.size} positions in a level, which is not a power of two"
            if level.size > 1 and level.size % 2:
                return f"the group has {level.size} positions in a level, which is odd"
        if view.size > _MOST and not _is_power_of_two(view.size):
            return f"{view.size} is more than {_MOST} and not a power of two"
        return super().refusal(request, view)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        n, coordinates = request.ranks, view.require_levels()
        parts = [_partners(coordinates, first, way) for first in range(coordinates.shape[1]) for way in (1, -1)]
        steps = len(parts[0])
        if self.method == "latency":
            chunk = np.repeat(np.arange(len(parts)), n)
            source = np.tile(np.arange(n), len(parts))
            whole = [
                Phase.of(source, np.concatenate([part[step] for part in parts]), chunk, reduce=True)
                for step in range(steps)
            ]
            return Schedule(request.pattern, n, request.size / len(parts), len(parts), in_series(whole))
        places = [_places(part) for part in parts]
        ways = _halves if _is_power_of_two(n) else _trees
        runs = [ways(part, place) for part, place in zip(parts, places, strict=True)]
        scatters = [_phase(parts, runs, step, reduce=True) for step in range(steps)]
        gathers = [_phase(parts, runs, step, reduce=False) for step in reversed(range(steps))]
        phases = {
            Pattern.REDUCE_SCATTER: scatters,
            Pattern.ALL_GATHER: gathers,
            Pattern.ALL_REDUCE: scatters + gathers,
        }[request.pattern]
        owner = np.empty((len(parts), n), dtype=np.intp)
        for number, place in enumerate(places):
            owner[number, place] = np.arange(n)
        return Schedule(
            request.pattern,
            n,
            request.size / owner.size,
            owner.size,
            in_series(phases),
            owner=None if request.pattern is Pattern.ALL_REDUCE else owner.ravel(),
        )


def _is_power_of_two(number: int) -> bool:
    return not number & (number - 1)


def _partners(coordinates: IntArray, first: int, way: int) -> list[IntArray]:
    """Return the ``(ranks,)`` partners at each step, from dimension ``first`` on and first that ``way`` around."""
    sizes = coordinates.max(axis=0) + 1
    rank_at = np.empty(sizes, dtype=np.intp)
    rank_at[tuple(coordinates.T)] = np.arange(len(coordinates))
    done = np.zeros(len(sizes), dtype=np.intp)
    partners: list[IntArray] = []
    dimension = first
    while len(partners) < sum(int(size - 1).bit_length() for size in sizes):
        size, step = int(sizes[dimension]), int(done[dimension])
        if 1 << step < size:
            distance = way * ((1 - (-2) ** (step + 1)) // 3)
            place = coordinates.copy()
            turn = np.where(place[:, dimension] % 2 == 0, distance, -distance)
            place[:, dimension] = (place[:, dimension] + turn) % size
            partners.append(rank_at[tuple(place.T)])
            done[dimension] += 1
        dimension = (dimension + 1) % len(sizes)
    return partners


def _places(partners: Sequence[IntArray]) -> IntArray:
    """Return each rank's place in an order in which what it exchanges from any step on is one run."""
    # The ranks that are joined by the exchanges from a step on are half of those joined from the step before on.
    n = len(partners[0])
    group = np.arange(n)  # the lowest rank of those that are joined from a step on
    names = [group]
    for partner in reversed(partners):
        group = np.minimum(group, group[partner])
        names.append(group)
    # Those joined from step 1 on are sorted first, then those from step 2 on within them, and so on.
    order = np.lexsort(names[:-1])
    place = np.empty(n, dtype=np.intp)
    place[order] = np.arange(n)
    return place


def _halves(partners: Sequence[IntArray], place: IntArray) -> list[_Runs]:
    """Return the runs of a power of two ranks: a partner is sent what it keeps, half of what both have until then."""
    n, rank = len(place), np.arange(len(place))
    counts = [n >> step + 1 for step in range(len(partners))]
    return [
        (rank, place[partner] // count * count, np.full(n, count))
        for partner, count in zip(partners, counts, strict=True)
    ]


def _trees(partners: Sequence[IntArray], place: IntArray) -> list[_Runs]:
    """Return the runs by one tree for each block."""
    # Seen from the last step back, a rank is a leaf of the trees that its partner is in already and it is not. So no
    # rank contributes to a block twice, although exchanges join some ranks more than once (section 3.2 of the paper).
    n = len(place)
    joined = np.zeros((n, n), dtype=bool)  # rank and place of the block
    joined[np.arange(n), place] = True
    steps = []
    for partner in reversed(partners):
        sent = joined[partner] & ~joined
        joined |= sent
        edges = np.diff(sent.astype(np.int8), axis=1, prepend=0, append=0)
        rank, first = np.nonzero(edges > 0)
        steps.append((rank, first, np.nonzero(edges < 0)[1] - first))
    return steps[::-1]


def _phase(parts: Sequence[Sequence[IntArray]], runs: Sequence[Sequence[_Runs]], step: int, *, reduce: bool) -> Phase:
    """Return a step of all parts; an all-gather sends back what the reduce-scatter has sent."""
    n = len(parts[0][step])
    chosen = [run[step] for run in runs]
    child = np.concatenate([rank for rank, _, _ in chosen])
    parent = np.concatenate([part[step][rank] for part, (rank, _, _) in zip(parts, chosen, strict=True)])
    chunk = np.concatenate([number * n + first for number, (_, first, _) in enumerate(chosen)])
    count = np.concatenate([count for _, _, count in chosen])
    source, destination = (child, parent) if reduce else (parent, child)
    return Phase.of(source, destination, chunk, count=count, reduce=reduce)
