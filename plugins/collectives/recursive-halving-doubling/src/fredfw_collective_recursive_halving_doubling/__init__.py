"""The collective algorithm ``recursive-halving-doubling``: exchanges with partners at distances of powers of two."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Pattern, Phase, Schedule, in_series, units
from fredfw.typing import IntArray

fredfw_contract = 2


@frozen
class RecursiveHalvingDoubling(CollectiveAlgorithm):
    """A reduce-scatter by recursive halving, an all-gather by recursive doubling, an all-reduce by both; any group.

    With n a power of two, a reduce-scatter exchanges half of what is left with partners at distances 1, 2, 4, ...: the
    most data goes the shortest way. An all-gather goes the way back. Each takes log2 n steps and moves (n - 1) / n of
    the size. With the method ``doubling`` an all-reduce exchanges the whole vector in each of log2 n steps
    (Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur, Rabenseifner and Gropp,
    "Optimization of collective communication operations in MPICH", IJHPCA 2005).

    Otherwise, with p the largest power of two below n, the ranks 1, 3, 5, ..., n - p of them, fold into the ranks
    before them, their hosts. The p others do as above, then the folded ones unfold: two more steps. For an all-reduce
    both carry the whole vector. For a reduce-scatter a folded rank hands over its part of all blocks but its own one,
    which it gets from its host in the end; hosts work for two blocks, so that the halves are uneven. An all-gather goes
    the way back.
    """

    name: ClassVar[str] = "recursive-halving-doubling"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
    proportional: ClassVar[bool] = True

    method: str = units.choice(
        ("halving-doubling", "doubling"),
        help="of an all-reduce: halving-doubling moves the fewest bytes, doubling takes the fewest steps",
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        return [cls(), cls(method="doubling")] if pattern is Pattern.ALL_REDUCE else [cls()]

    def served_patterns(self) -> frozenset[Pattern]:
        return self.patterns - {Pattern.REDUCE_SCATTER} if self.method == "doubling" else self.patterns

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        if request.pattern is Pattern.ALL_REDUCE:
            return _all_reduce(request, self.method)
        n, reduce = request.ranks, request.pattern is Pattern.REDUCE_SCATTER
        core, folded = _fold(n)
        # Blocks in the order of their owners' places in the core; a folded rank's is next to its host's.
        place = np.empty(n, dtype=np.intp)
        place[core] = _places(len(core))
        place[folded] = place[folded - 1]
        owner = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[owner], np.arange(len(core) + 1))
        own = np.argsort(owner)[folded]
        if reduce:
            fold = Phase.of(folded, folded - 1, own + 1, count=n - 1, modulus=n, reduce=True)
            unfold = Phase.of(folded - 1, folded, own, reduce=True)
        else:
            fold = Phase.of(folded, folded - 1, own)
            unfold = Phase.of(folded - 1, folded, own + 1, count=n - 1, modulus=n)
        phases = _wrapped(fold, _exchanges(core, bounds, reduce=reduce), unfold)
        return Schedule(request.pattern, n, request.size / n, n, phases, owner=owner)


def _all_reduce(request: CollectiveRequest, method: str) -> Schedule:
    core, folded = _fold(request.ranks)
    if method == "doubling":
        chunks = 1
        member = np.arange(len(core))
        inner = [
            Phase.of(core, core[member ^ (1 << step)], 0, reduce=True) for step in range(len(core).bit_length() - 1)
        ]
    else:
        chunks = len(core)
        bounds = np.arange(chunks + 1)
        inner = [*_exchanges(core, bounds, reduce=True), *_exchanges(core, bounds, reduce=False)]
    fold = Phase.of(folded, folded - 1, 0, count=chunks, reduce=True)
    phases = _wrapped(fold, inner, Phase.of(folded - 1, folded, 0, count=chunks))
    return Schedule(request.pattern, request.ranks, request.size / chunks, chunks, phases)


def _fold(n: int) -> tuple[IntArray, IntArray]:
    """Return the ``(p,)`` ranks that do the work, and the ``(n - p,)`` ones that fold into the ranks before them."""
    folded = np.arange(1, 2 * (n - (1 << n.bit_length() - 1)), 2)
    return np.delete(np.arange(n), folded), folded


def _wrapped(fold: Phase, inner: Sequence[Phase], unfold: Phase) -> tuple[Phase, ...]:
    return in_series([fold, *inner, unfold] if len(fold) else inner)


def _places(p: int) -> IntArray:
    """Return each member's place: its number with the bits reversed, so that what it keeps is always one run."""
    member = np.arange(p)
    places = np.zeros(p, dtype=np.intp)
    for _ in range(p.bit_length() - 1):
        places = places << 1 | member & 1
        member >>= 1
    return places


def _exchanges(core: IntArray, bounds: IntArray, *, reduce: bool) -> list[Phase]:
    """Return the steps of recursive halving (``reduce``) or doubling among the ranks ``core``."""
    # After ``s`` steps of halving a member is left with the ``p / 2^s`` places that share the first ``s`` bits of its
    # own. The chunks of place ``i`` are ``bounds[i]`` to ``bounds[i + 1] - 1``.
    p = len(core)
    member, place = np.arange(p), _places(p)
    phases = []
    for step in range(p.bit_length() - 1):
        partner = member ^ (1 << step)
        width = p >> step + 1
        kept = place // width * width
        sent = kept[partner] if reduce else kept
        count = bounds[sent + width] - bounds[sent]
        phases.append(Phase.of(core, core[partner], bounds[sent], count=count, reduce=reduce))
    return phases if reduce else phases[::-1]
