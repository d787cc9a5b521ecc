"""Whether a phase may start beside what is running: the place for circuits, wavelengths and routing conflicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from attrs import frozen

from fredfw.fabric.flows import FlowSet
from fredfw.typing import FloatArray


@frozen(eq=False)
class Start:
    """The flows may start.

    Args:
        setup: Seconds that setting up takes, on top of the flow set's own.
        caps: ``(F,)`` upper limit of each flow's rate in bytes per second, or ``None``.
    """

    setup: float = 0.0
    caps: FloatArray | None = None


@frozen
class Wait:
    """The flows must wait until something that runs is released; they are asked about again then."""

    reason: str = ""


@frozen
class Refuse:
    """The flows can never run on this fabric; the simulation ends with an error that gives the reason."""

    reason: str


Decision = Start | Wait | Refuse


class Admission(ABC):
    """Decides about flow sets, one simulation at a time; may keep state between ``admit`` and ``release``."""

    @abstractmethod
    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        """Return what to do with ``flows`` while ``active`` are running."""

    def release(self, flows: FlowSet) -> None:  # noqa: B027  (most admissions keep no state)
        """Note that all activities of ``flows`` have ended."""


class AlwaysStart(Admission):
    """Starts everything at once: links are shared, not reserved."""

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        """See ``Admission.admit``."""
        del flows, active
        return Start()
