"""Whether a phase may start beside what is running: the place for circuits, wavelengths and routing conflicts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from attrs import frozen

from fredfw.fabric.flows import FlowSet, Routes
from fredfw.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from fredfw.fabric.fabric import Fabric


@frozen(eq=False)
class Start:
    """The flows may start.

    Args:
        setup: Seconds of setting up, on top of the flow set's own.
        caps: ``(F,)`` bytes per second that each flow does not exceed, or ``None``.
        setup_once: Whether it is paid once, not at each repetition of a phase; flows that take turns pay at each.
    """

    setup: float = 0.0
    caps: FloatArray | None = None
    setup_once: bool = False


@frozen
class Wait:
    """The flows must wait until something that runs is released; they are asked about again then."""

    reason: str = ""


@frozen
class Refuse:
    """The flows can never run on this fabric; the simulation ends with an error that gives the reason."""

    reason: str


@frozen(eq=False)
class Split:
    """The flows cannot run together; parts of them run one after the other, in each repetition.

    A part starts when all of the one before it is delivered, and is asked about then, like any flow set.

    Args:
        parts: Two or more, each with the indices of its flows; every flow is in exactly one.
        reason: Why.
    """

    parts: tuple[IntArray, ...]
    reason: str = ""


@frozen
class Decompose:
    """The network cannot carry these many-ended flows; their ends do it with unicasts, which are asked about in turn.

    Only collectives have such unicasts; for anything else the simulation ends with an error that gives the reason.
    """

    reason: str


Decision = Start | Wait | Refuse | Split | Decompose


class Admission(ABC):
    """Decides about flow sets of one simulation; all its answers follow from what it was asked in this one alone.

    Attributes:
        flow_by_flow: Whether flows of a phase may be asked about one by one, as their sources get ready. ``False`` is
            for circuits that are set up for a whole phase: then an ``exact`` simulation keeps phases whole.
    """

    flow_by_flow: ClassVar[bool] = False

    def cap(self) -> float:
        """Return bytes per second that no flow exceeds, infinite by default; ``auto`` leaves out what needs more."""
        return math.inf

    @abstractmethod
    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        """Return what to do with ``flows`` while ``active`` are running.

        Flows that were told to wait are asked about again, in the order in which they came, whenever some are released.
        """

    def always_starts(self, routes: Routes) -> BoolArray | None:
        """Return which of ``(F,)`` ``routes`` start at once whatever runs; ``None``, the default, for none of them.

        Without set-up or caps, and without a trace: ``admit`` and ``release`` do not hear of them, nor are they among
        the ``active``. What a class inherits does not count if it overrides ``admit``.
        """
        return None

    def compatible(self, together: Sequence[FlowSet]) -> bool:
        """Return whether each of ``together``, or a part of it, starts at once whichever flows of the others run.

        Nothing else runs then. Starts have no set-up or caps, and answers, figures and notes do not depend on how often
        there is one. ``False``, the default, is safe. What is inherited does not count beside an own ``admit``.
        """
        return False

    def release(self, flows: FlowSet) -> None:  # noqa: B027  (most admissions keep no state)
        """Note that all activities of ``flows`` have ended."""

    def figures(self) -> Mapping[str, float]:
        """Return, after a simulation, finite numbers for readers of its result, by a name that says the unit."""
        return {}

    def notes(self) -> tuple[str, ...]:
        """Return, after a simulation, what a reader of its result must know, for example conflicts that were met."""
        return ()


class AlwaysStart(Admission):
    """Starts everything at once: links are shared, not reserved."""

    flow_by_flow: ClassVar[bool] = True

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        return Start()

    def compatible(self, together: Sequence[FlowSet]) -> bool:
        return True


class AdmissionPolicy(ABC):
    """Makes the admission of each simulation; plugins derive attrs classes from it.

    It may remember what depends on no simulation, such as the circuits of routes. Experiments call it ``name``.
    """

    name: ClassVar[str]

    @abstractmethod
    def begin(self, fabric: Fabric) -> Admission:
        """Return a new admission for one simulation; ``UnsupportedError`` for a fabric that it cannot control."""


@frozen
class OpenAdmission(AdmissionPolicy):
    """Everything starts at once: links are shared, not reserved."""

    name: ClassVar[str] = "open"

    def begin(self, fabric: Fabric) -> Admission:
        return AlwaysStart()
