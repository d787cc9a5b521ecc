"""What the memory of an NPU has no room for goes to memory tiers, and comes back: loads and stores of an iteration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fredfw import arrays
from fredfw.errors import InputError
from fredfw.fabric import MemoryTier
from fredfw.units import Unit, render
from fredfw.workloads.composition import exits_of
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.kinds import ROW, TaskKind
from fredfw.workloads.workload import MemoryUse

LABEL = "spill"
"""What the time of these loads and stores is charged to."""
_ORDER = "optimizer", "activations", "cache", "gradients", "weights"
"""The parts of a footprint in the order in which they leave the NPU: those that are touched least often first."""


@frozen
class Spill:
    """What each NPU has in a memory tier, because its own memory has no room for it."""

    tier: str  # name of the tier
    parts: Mapping[str, float]  # bytes of each NPU, by part of the footprint
    in_flight: float = 1.0  # microbatches whose activations those are

    def stored(self, microbatches: int) -> float:
        """Return the bytes that each NPU stores in an iteration: as it loads, but updated weights once."""
        return self._moved(microbatches, weights=1.0)

    def loaded(self, microbatches: int) -> float:
        """Return the bytes that each NPU loads in an iteration.

        Weights forward and backward for each microbatch, gradients for each one that is added to them, activations for
        each one's backward pass, and the optimizer state and a cache once.
        """
        return self._moved(microbatches, weights=2.0 * microbatches)

    def _moved(self, microbatches: int, weights: float) -> float:
        times = {"weights": weights, "gradients": microbatches, "activations": microbatches / self.in_flight}
        return sum(size * times.get(part, 1.0) for part, size in self.parts.items())


def spills(
    use: MemoryUse,
    capacity: float,
    tiers: Sequence[MemoryTier],
    workers: int,
    others: Mapping[str, float] | None = None,
) -> tuple[Spill, ...]:
    """Return what each of ``workers`` NPUs of ``capacity`` bytes has to keep in ``tiers``, the first ones first.

    Args:
        use: What each needs.
        capacity: Bytes of its own memory.
        tiers: Where the rest may be.
        workers: How many there are.
        others: Bytes that other NPUs have in a tier for all NPUs, by its name.

    Raises:
        InputError: They have no room for it, or for what the workload keeps there anyway.
    """
    rooms = {}
    for tier in tiers:
        taken = (others or {}).get(tier.name, 0.0) / workers if tier.for_all else 0.0
        kept, room = use.tiers.get(tier.name, 0.0), tier.room(workers) - taken
        if kept > room:
            what, there = render(kept, Unit.BYTES), render(room, Unit.BYTES)
            message = f"keeps {what} per NPU in memory tier {tier.name!r}, which has room for {there} per NPU"
            needed = render(kept * tier.sharing(workers) / tier.memories, Unit.BYTES)
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
        raise InputError(
            f"needs {render(use.total, Unit.BYTES)} per NPU, and the memory of an NPU and the memory tiers "
            f"{', '.join(rooms)} have no room for {render(lacking, Unit.BYTES)} of it",
            accepted="more capacity, another tier behind the last, or a larger split",
        )
    return tuple(found)


def with_spills(graph: TaskGraph, spilled: Iterable[Spill], microbatches: int) -> TaskGraph:
    """Return an iteration with the traffic of ``spilled``, of each rank, behind all that a rank does.

    So nothing overlaps with it, which is the most that it can cost.
    """
    tasks = [
        (kind, one.tier, size)
        for one in spilled
        for kind, size in ((TaskKind.LOAD, one.loaded(microbatches)), (TaskKind.STORE, one.stored(microbatches)))
    ]
    if not tasks:
        return graph
    count, first = len(tasks), len(graph)
    last = exits_of(graph)
    counts = [*np.diff(graph.dependency_offsets), len(last), *[1] * (count - 1)]
    labels, tiers = _index(graph.label_names, [LABEL]), _index(graph.memory_names, [tier for _, tier, _ in tasks])
    filled: dict[str, Any] = {
        **ROW,
        "kinds": [int(kind) for kind, *_ in tasks],
        "bytes": [size for *_, size in tasks],
        "labels": labels.index(LABEL),
        "memories": [tiers.index(tier) for _, tier, _ in tasks],
        "members": len(graph.tables),
    }
    columns: dict[str, Any] = {
        name: np.append(getattr(graph, name), np.broadcast_to(value, count)) for name, value in filled.items()
    }
    return evolve(
        graph,
        names=(*graph.names, *(f"{LABEL} {kind.name.lower()} {tier}" for kind, tier, _ in tasks)),
        patterns=(*graph.patterns, *[None] * count),
        label_names=labels,
        memory_names=tiers,
        tables=(*graph.tables, np.arange(graph.ranks)[:, None]),
        dependency_offsets=arrays.offsets(counts),
        dependencies=np.concatenate([graph.dependencies, last, np.arange(first, first + count - 1)]),
        **columns,
    )


def _index(names: Sequence[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *more)))
