"""The counters of a network."""

from __future__ import annotations

from attrs import asdict, define


@define
class Statistics:
    """Counters of one network.

    Args:
        events: Moments at which something happened.
        batches: Flow sets started.
        flows: Flows started.
        solves: Times that rates were computed, of all flows or of those that a change reaches.
        solved: Flows whose rates all solves together computed.
        passes: Passes over the flows that all solves took together.
        most_passes: Passes of the solve that took most.
        waits: Flow sets that had to wait for others, however often they were asked about again.
        splits: Flow sets that ran in parts.
        decompositions: Flow sets that were replaced by unicasts.
        met: Meetings of flow sets out of step, of which one was repetitions that are simulated as one. If there is
            none, the flow sets take as long one repetition after the other.
    """

    events: int = 0
    batches: int = 0
    flows: int = 0
    solves: int = 0
    solved: int = 0
    passes: int = 0
    most_passes: int = 0
    waits: int = 0
    splits: int = 0
    decompositions: int = 0
    met: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return asdict(self)

    def __add__(self, other: Statistics) -> Statistics:
        """Return the counters of two simulations."""
        mine, others = asdict(self), asdict(other)
        sums = {name: value + others[name] for name, value in mine.items()}
        return Statistics(**sums | {"most_passes": max(self.most_passes, other.most_passes)})
