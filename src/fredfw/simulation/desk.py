"""The admission desk: what asks to start is let in, waits, runs in parts, or is replaced by unicasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

import numpy as np

from fredfw.errors import RefusedError, SimulationError
from fredfw.fabric import Admission, AlwaysStart, Decompose, FlowSet, Refuse, Split, Start, Wait
from fredfw.simulation import answers
from fredfw.simulation.detours import Detours
from fredfw.simulation.requests import Request, Turns
from fredfw.simulation.statistics import Statistics

_AT_ONCE = Start()


class Desk:
    """Asks the admission control of a fabric, and does what it says.

    Args:
        admission: The fabric's, for one simulation.
        admit: Lets a request in, with flows that may take other ways than it says.
        active: Returns the flow sets that were let in and have not ended.
        compressed: Returns whether repetitions are under way that are simulated as one.
        detours: The ways round closed links.
        fabric: Name of the fabric.
        statistics: Counts.
        controlled: Links that it decides about, which come first; flows over others, of memories, start at once.

    Attributes:
        waiting: What will be asked about again when something has ended.
    """

    def __init__(
        self,
        admission: Admission,
        *,
        admit: Callable[[Request, FlowSet, Start], None],
        active: Callable[[], Iterable[FlowSet]],
        compressed: Callable[[], bool],
        detours: Detours,
        fabric: str,
        statistics: Statistics,
        controlled: int,
    ) -> None:
        self.waiting: list[Request] = []
        self._admission = admission
        self._admit = admit
        self._active = active
        self._compressed = compressed
        self._detours = detours
        self._fabric = fabric
        self._statistics = statistics
        self._controlled = controlled
        # What is told of other flows that run matters to nobody where everything starts.
        self._lonely = isinstance(admission, AlwaysStart)

    def ask(self, request: Request) -> None:
        """Do with the flows of ``request`` what the admission says.

        Raises:
            RefusedError: The admission refuses the flows.
            SimulationError: It asks for unicasts where there are none.
            PluginError: It fails, or returns what cannot be done.
        """
        flows = self._detours.around(request.flows)
        if type(self._admission) is AlwaysStart or self._is_outside(flows):
            self._admit(request, flows, _AT_ONCE)
            return
        what = flows.label or "flows"
        active = () if self._lonely else tuple(one for one in self._active() if not self._is_outside(one))
        decision = answers.decision(self._admission, flows, active)
        match decision:
            case Start():
                self._admit(request, flows, decision)
            case Wait():
                self._wait(request)
            case Split():
                self._split(request, decision)
            case Decompose():
                if request.unicasts is None:
                    raise SimulationError(
                        f"fabric {self._fabric!r} cannot carry {what}, and cannot replace it by unicasts: "
                        f"{decision.reason}"
                    )
                self._statistics.decompositions += 1
                self.ask(Request(request.ticket, request.unicasts(), request.on_complete, None, request.on_drained))
            case Refuse():
                raise RefusedError(f"fabric {self._fabric!r} refuses {what}: {decision.reason}")
            case _:
                assert_never(decision)

    def forget(self, ticket: int) -> None:
        """Let go of what waits for ``ticket``."""
        self.waiting = [request for request in self.waiting if request.ticket != ticket]

    def close(self, flows: FlowSet) -> None:
        """Tell the admission that ``flows`` have ended, and do with what waits what can be done now."""
        if type(self._admission) is AlwaysStart or self._is_outside(flows):
            return
        answers.release(self._admission, flows)
        waiting, self.waiting = self.waiting, []
        for place, request in enumerate(waiting, start=1):
            try:
                self.ask(request)
            except BaseException:
                self.waiting += waiting[place:]  # an error in one does not concern the others
                raise

    def _is_outside(self, flows: FlowSet) -> bool:
        """Return whether ``flows`` go over links that the admission does not know."""
        links = flows.routes.links
        return len(links) > 0 and bool(links[0] >= self._controlled)

    def _wait(self, request: Request) -> None:
        """Have ``request`` asked about again."""
        self._statistics.waits += not request.waited
        request.waited = True
        # Between two repetitions it might not have had to wait.
        self._statistics.met += request.flows.repeat > 1 or self._compressed()
        self.waiting.append(request)

    def _split(self, request: Request, split: Split) -> None:
        """Run the parts of ``request`` one after the other."""
        flows = request.flows
        self._statistics.splits += 1
        Turns.of(self.ask, request, [flows.part(np.asarray(part, dtype=np.intp)) for part in split.parts]).begin()
