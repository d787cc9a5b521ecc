"""Which algorithm serves a collective: the first of a given list that can, or the fastest of all (``auto``)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from attrs import field, frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Schedule
from fredfw.errors import RefusedError, UnsupportedError
from fredfw.fabric import Fabric, GroupView
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.progress import ScheduleRun
from fredfw.simulation.sharing import SharingPolicy
from fredfw.typing import IntArray


@frozen(eq=False)
class Plan:
    """A schedule, and how it was chosen.

    Args:
        schedule: What to run.
        algorithm: The algorithm that wrote it, with its options.
        candidates: Seconds of every algorithm that was tried; empty where none had to be.
    """

    schedule: Schedule
    algorithm: str
    candidates: Mapping[str, float] = field(factory=dict)


class Planner:
    """Chooses an algorithm for each request on one fabric, once.

    Args:
        fabric: The network.
        sharing: How its links are shared.
        lowering: Turns phases into flows on it.
        candidates: Per pattern the algorithms to consider; the entry ``None`` serves all other patterns.
        fastest: Whether to time every candidate alone on the fabric and take the fastest (ties by name), leaving out
            those that the fabric's admission refuses; otherwise the first that can serve the request is taken.
        others: Returns the algorithms to name to a user whose candidates cannot serve a request.
    """

    def __init__(
        self,
        fabric: Fabric,
        sharing: SharingPolicy,
        lowering: Lowering,
        candidates: Mapping[Pattern | None, Sequence[CollectiveAlgorithm]],
        *,
        fastest: bool = False,
        others: Callable[[], Iterable[CollectiveAlgorithm]] = tuple,
    ) -> None:
        self._fabric = fabric
        self._sharing = sharing
        self._lowering = lowering
        self._candidates = candidates
        self._fastest = fastest
        self._others = others
        self._plans: dict[Hashable, Plan] = {}
        self._schedules: dict[Hashable, Schedule] = {}

    def plan(self, request: CollectiveRequest, members: IntArray, view: GroupView | None = None) -> Plan:
        """Return the plan for ``request`` among the NPUs numbered ``members``.

        Raises:
            UnsupportedError: No candidate can serve it; the message gives every candidate's reason. ``RefusedError``
                where only the simulation showed it.
        """
        view = view or self._fabric.view(members)
        # Which candidate is fastest depends on where the group is; the schedule itself on the view alone.
        place = members.tobytes() if self._fastest else None
        sizes = None if request.sizes is None else request.sizes.tobytes()
        key = request.pattern, request.size, request.root, sizes, view.key, place
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = self._choose(request, members, view)
        return known

    def able(self, request: CollectiveRequest, view: GroupView) -> list[CollectiveAlgorithm]:
        """Return the candidates that can serve ``request`` in a group seen as ``view``, one or more.

        Raises:
            UnsupportedError: None can; the message gives every candidate's reason.
        """
        candidates = self._candidates.get(request.pattern, self._candidates.get(None, ()))
        reasons = {str(one): one.refusal(request, view) for one in candidates}
        able = [one for one in candidates if reasons[str(one)] is None]
        if not able:
            listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or "none is given"
            others = sorted(one.name for one in self._others() if one.refusal(request, view) is None)
            raise UnsupportedError(
                f"no algorithm can do {request.pattern} among {request.ranks} NPUs of {self._fabric.name!r}: {listed}",
                accepted=", ".join(others) or None,
            )
        return able

    def _choose(self, request: CollectiveRequest, members: IntArray, view: GroupView) -> Plan:
        able = self.able(request, view)
        if not self._fastest or len(able) == 1:
            return Plan(self._interned(able[0].plan(request, view)), str(able[0]))
        plans = {str(one): self._interned(one.plan(request, view)) for one in able}
        seconds: dict[str, float] = {}
        reasons: dict[str, RefusedError] = {}
        for name, schedule in plans.items():
            try:
                seconds[name] = self._time(schedule, members)
            except RefusedError as error:
                reasons[name] = error
        if not seconds:
            listed = "; ".join(f"{name}: {error}" for name, error in reasons.items())
            raise RefusedError(f"no algorithm can do {request.pattern} among {request.ranks} NPUs: {listed}")
        best = min(sorted(seconds), key=seconds.__getitem__)
        return Plan(plans[best], best, seconds)

    def _interned(self, schedule: Schedule) -> Schedule:
        """Return one object for equal schedules, so that groups that do the same can be simulated together."""
        return self._schedules.setdefault(schedule.key, schedule)

    def _time(self, schedule: Schedule, members: IntArray) -> float:
        network = FlowNetwork(self._fabric, self._sharing)
        groups = self._fabric.npus[members][None, :]
        ScheduleRun(network, self._lowering, schedule, groups, lambda _: None).start()
        network.advance()
        if not network.idle:
            held = ", ".join(sorted(set(network.stalled())))
            raise RefusedError(f"flows that cannot move on {self._fabric.name!r}: {held}")
        return network.now
