"""What the memory of an NPU has no room for goes to memory tiers, and comes back: loads and stores of an iteration."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from attrs import frozen

from fredfw.errors import InputError
from fredfw.fabric import MemoryTier
from fredfw.units import Unit, render
from fredfw.workloads.composition import Assembly, exits_of
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.kinds import TaskKind
from fredfw.workloads.workload import MemoryUse

LABEL = "spill"  # what the time of these loads and stores is charged to
# How parts of a footprint leave the NPU: those that are touched least often first.
_ORDER = "optimizer", "activations", "cache", "gradients", "weights"


@frozen
class Spill:
    """What each NPU has in a memory tier, because its own memory has no room for it."""

    tier: str  # name of the tier
    parts: Mapping[str, float]  # bytes of each NPU, by part of the footprint
    in_flight: float = 1.0  # microbatches whose activations those are

    def moved(self, kind: TaskKind, microbatches: int) -> float:
        """Return the bytes that each NPU loads or stores in an iteration.

        Weights are loaded twice, gradients and activations once a microbatch, the rest once; stored too, weights once.
        """
        weights = 1.0 if kind is TaskKind.STORE else 2.0 * microbatches
        times = {"weights": weights, "gradients": microbatches, "activations": microbatches / self.in_flight}
        return sum(size * times.get(part, 1.0) for part, size in self.parts.items())


def spills(
    use: MemoryUse, capacity: float, tiers: Sequence[MemoryTier], npus: int, others: Mapping[str, float] | None = None
) -> tuple[Spill, ...]:
    """Return what each of ``npus`` NPUs keeps in ``tiers``, the first ones first; ``InputError`` without room."""
    # Others: bytes that other NPUs have in a tier for all NPUs, by its name.
    rooms = {}
    for tier in tiers:
        taken = (others or {}).get(tier.name, 0.0) / npus if tier.for_all else 0.0
        kept, room = use.tiers.get(tier.name, 0.0), tier.room(npus) - taken
        if kept > room:
            what, there = render(kept, Unit.BYTES), render(room, Unit.BYTES)
            message = f"keeps {what} per NPU in memory tier {tier.name!r}, which has room for {there} per NPU"
            needed = render(kept * tier.sharing(npus) / tier.memories, Unit.BYTES)
            raise InputError(message, accepted=f"a tier of at least {needed} per memory")
        rooms[tier.name] = room - kept
    excess = max(use.total - capacity, 0.0)
    parts = {}
    for part in _ORDER:
        parts[part] = min(getattr(use, part), excess)
        excess -= parts[part]
    found = []
    for name, room in rooms.items():
        mine: dict[str, float] = {}
        for part, size in parts.items():
            mine[part] = min(size, room - sum(mine.values()))
            parts[part] -= mine[part]
        if any(mine.values()):
            found.append(Spill(name, {part: size for part, size in mine.items() if size}, use.in_flight))
    lacking = sum(parts.values())
    if lacking:
        needed, rest = render(use.total, Unit.BYTES), render(lacking, Unit.BYTES)
        where = f"the memory of an NPU and the memory tiers {', '.join(rooms)} have no room for {rest} of it"
        accepted = "more capacity, another tier behind the last, or a larger split"
        raise InputError(f"needs {needed} per NPU, and {where}", accepted=accepted)
    return tuple(found)


def with_spills(graph: TaskGraph, spilled: Iterable[Spill], microbatches: int) -> TaskGraph:
    """Add the traffic behind all that a rank does: nothing overlaps with it, which is the most that it can cost."""
    kinds = TaskKind.LOAD, TaskKind.STORE
    moved = [(one.tier, kind, one.moved(kind, microbatches)) for one in spilled for kind in kinds]
    if not moved:
        return graph
    whole = Assembly()
    whole.copy(graph, whole.begin(graph), "", graph.label_names)
    everybody, last = whole.table(np.arange(graph.ranks)[:, None]), exits_of(graph)
    for tier, kind, size in moved:
        name = f"{LABEL} {kind.name.lower()} {tier}"
        task = whole.task(name, kind, LABEL, last, bytes=size, memories=whole.memory(tier), members=everybody)
        last = np.array([task])
    return whole.graph()
