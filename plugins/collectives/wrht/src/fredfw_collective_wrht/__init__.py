"""The collective algorithm ``wrht``: groups of ring neighbours send to the one in their middle, level by level."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Level, Pattern, Phase, Schedule, in_series, units
from fredfw.typing import IntArray

fredfw_contract = 2


@frozen
class Wrht(CollectiveAlgorithm):
    """Wavelength Reused Hierarchical Tree: an all-reduce in few steps, each of the whole vector.

    The members of the ring are cut into groups of ``m`` consecutive ones, the last of which may be smaller. In one step
    every member sends its vector to the one in the middle, half of them from either side, each on a wavelength of its
    own; all groups use the same wavelengths. The middle ones go on likewise, until one is left or those that are left
    can exchange their vectors all-to-all in one step; then the result goes back down the same tree. With the default
    ``m`` that is 2 ceil(log_m N) steps, one less with the exchange (Dai et al., "Efficient All-reduce for Distributed
    DNN Training in Optical Interconnect System", ICPP 2023).

    It serves a group along one two-way ring, in the order of its positions, and along a line, which is how a fabric
    shows a group that leaves out some positions of a ring. Where there are no wavelengths, a link counts as one.
    """

    name: ClassVar[str] = "wrht"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE})
    proportional: ClassVar[bool] = True

    m: int | None = units.count(
        None, minimum=2, help="members of a group; default: 2 x wavelengths + 1, the most that one step can serve"
    )
    all_to_all: bool = units.flag(
        True, help="whether the last ones exchange all-to-all as soon as the wavelengths suffice for it"
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        """See ``CollectiveAlgorithm.variants``: smaller groups leave several wavelengths to each transfer."""
        return [cls(), *(cls(m=2**exponent + 1) for exponent in range(1, 9))]

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if request.ranks > 1:
            if len(view.levels) != 1 or view.levels[0].kind == "switch":
                kinds = ", ".join(f"a {level.kind} of {level.size}" for level in view.levels) or "no level"
                return f"the group does not lie along one ring or line, it extends over {kinds}"
            if not view.levels[0].two_way:
                return "the ring goes one way only"
        return super().refusal(request, view)

    def equivalent(self, view: GroupView) -> CollectiveAlgorithm:
        """See ``CollectiveAlgorithm.equivalent``: no group has more members than there are ranks."""
        if len(view.levels) != 1:
            return self
        return evolve(self, m=max(2, min(self._group(view.levels[0]), view.size)))

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        (level,) = view.levels
        rank_at = np.argsort(view.require_levels()[:, 0])
        m = self._group(level)
        up, down = [], []
        left = np.arange(request.ranks)  # positions
        while len(left) > 1:
            if self.all_to_all and exchange_wavelengths(left, level) <= level.lanes:
                x, y = np.nonzero(~np.eye(len(left), dtype=bool))
                up.append(Phase.of(rank_at[left[x]], rank_at[left[y]], 0, reduce=True))
                break
            first = np.arange(0, len(left), m)
            size = np.minimum(m, len(left) - first)
            middle = left[first + size // 2]
            target = np.repeat(middle, size)
            sends = left != target
            member, representative = rank_at[left[sends]], rank_at[target[sends]]
            up.append(Phase.of(member, representative, 0, reduce=True))
            down.append(Phase.of(representative, member, 0))
            left = middle
        return Schedule(request.pattern, request.ranks, request.size, 1, in_series(up + down[::-1]))

    def _group(self, level: Level) -> int:
        return 2 * level.lanes + 1 if self.m is None else self.m


def exchange_wavelengths(positions: IntArray, level: Level) -> int:
    """Return how many wavelengths an all-to-all exchange among k sorted ``positions`` of ``level`` needs."""
    # On a ring ceil(k^2 / 8), the rule for evenly spaced members (Dai et al., ICPP 2023), or more where uneven spacing
    # loads a link with more of the shortest arcs; antipodal pairs take turns in which way round both of their arcs go.
    # The rule is kept for odd k, too, whose links carry one arc less. On a line floor(k^2 / 4), the pairs that its
    # middle link separates.
    k = len(positions)
    if level.kind == "line":
        return k * k // 4
    if (evenly := -(-k * k // 8)) > level.lanes:
        return evenly  # too many already; the arcs of thousands of members are better not looked at
    hops = (positions - positions[:, None]) % level.size
    x, y = np.nonzero((hops > 0) & (2 * hops < level.size))
    # The arcs the other way round are the same, reversed. The load can only be largest just behind a member.
    crossing = (positions[:, None] - positions[x]) % level.size < hops[x, y]
    antipodal = int(np.count_nonzero(2 * hops == level.size)) // 2
    return max(evenly, int(crossing.sum(axis=1).max()) + (antipodal + 1) // 2)
