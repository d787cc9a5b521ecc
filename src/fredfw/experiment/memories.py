"""Whether a workload fits the memory of an NPU, and what becomes of what does not."""

from collections.abc import Mapping, Sequence

from fredfw.errors import InputError
from fredfw.fabric import MemoryTier
from fredfw.units import Unit, render
from fredfw.workloads import MemoryUse, Npu
from fredfw.workloads.spilling import Spill, spills


def spilled(
    memory: MemoryUse, npu: Npu, tiers: Sequence[MemoryTier], workers: int, others: Mapping[str, float] | None = None
) -> tuple[Spill, ...]:
    """Return what each of ``workers`` NPUs has in ``tiers``, of which ``others`` have so many bytes, see ``spills``."""
    if tiers:
        return spills(memory, npu.capacity, tiers, workers, others)
    if memory.must_fit and memory.total > npu.capacity:
        accepted = (
            "a larger split, a smaller microbatch, recomputation, a higher ZeRO stage, more npu.memory or "
            "npu.expanded_memory, less npu.reserve, or memories of the fabric"
        )
        raise InputError(_text(memory, npu), accepted=accepted)
    return ()


def notes(memory: MemoryUse, npu: Npu, spilled: Sequence[Spill]) -> tuple[str, ...]:
    if memory.total <= npu.room:
        return ()
    expanded = npu.expanded(memory.total)
    told = ""
    if expanded:
        bandwidth = render(npu.holding(memory.total).memory_bandwidth, Unit.BYTES_PER_SECOND)
        outside = render(expanded, Unit.BYTES)
        told = f"; {outside} are in its expanded memory, so computation moves bytes at {bandwidth}"
    for one in spilled:
        parts = ", ".join(f"{part} {render(size, Unit.BYTES)}" for part, size in one.parts.items())
        told += f"; {parts} are in memory tier {one.tier!r}, and nothing overlaps with their loads and stores"
    if not spilled and memory.total > npu.capacity:
        told += "; the rest is assumed to be stored outside the NPU at no cost"
    return (f"{_text(memory, npu)}{told}",)


def _text(memory: MemoryUse, npu: Npu) -> str:
    parts = ", ".join(f"{part} {render(size, Unit.BYTES)}" for part, size in memory.parts.items() if size)
    total, capacity = render(memory.total, Unit.BYTES), render(npu.memory, Unit.BYTES)
    less = f", of which {render(npu.reserve, Unit.BYTES)} are reserved" if npu.reserve else ""
    more = f" and {render(npu.expanded_memory, Unit.BYTES)} of expanded memory" if npu.expanded_memory else ""
    return f"needs {total} of memory per NPU ({parts}), but an NPU has {capacity}{less}{more}"
