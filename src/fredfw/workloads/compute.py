"""How long a computation takes on an NPU: a roofline, or kernel by kernel."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

from attrs import evolve, frozen

from fredfw.errors import InputError
from fredfw.files import Files
from fredfw.units import Unit, at_least, bandwidth, choice, files, flops, option, quantity, render, size
from fredfw.workloads import kernel_tables, npus
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.kernels import Attention, AttentionModel, Gemm, KernelModel, Kernels


@frozen
class Npu:
    """An accelerator. The defaults are FRED's H100-like NPU: 80 GB of HBM3 at 3 TB/s (FRED, table of parameters).

    The peak rate is that of an H100 SXM5 in dense FP16 on tensor cores (NVIDIA H100 data sheet).
    """

    peak: float = flops("989.4 TFLOP/s", help="peak compute rate")
    memory_bandwidth: float = bandwidth("3 TB/s", help="bandwidth of the local memory")
    memory: float = size("80 GB", help="capacity of the local memory")
    reserve: float = quantity(
        Unit.BYTES, 0.0, help="part of the local memory that a workload cannot have: contexts, buffers, fragments"
    )
    efficiency: float = option(
        1.0, validator=at_least(1e-6, at_most=1.0), help="share of the peak rate that is reached"
    )
    compute: str = choice(
        npus.MODELS,
        help="roofline: a computation takes the longer of all its FLOPs and all its bytes; "
        "kernels: each of its kernels takes a time of its own, where the workload lists them",
    )
    kernels: KernelModel = option(  # noqa: RUF009  (declares a field)
        KernelModel(), help="constants of kernels; of a preset, its own"
    )
    kernel_tables: Files | None = files(
        None, help="measured kernels, to which the constants are fitted in place of kernels"
    )
    precision: str = choice(npus.PRECISIONS, help="of matrix products, which has a peak and kernels")
    expanded_memory: float = quantity(
        Unit.BYTES, 0.0, help="capacity of a second memory, such as one on CXL; needs expanded_memory_bandwidth"
    )
    expanded_memory_bandwidth: float | None = bandwidth(
        None, help="bandwidth of the second memory; needs expanded_memory"
    )

    def __attrs_post_init__(self) -> None:
        if self.compute != npus.MODELS[0] and self.efficiency != 1.0:
            message = f"{self.efficiency!r} has no effect on {npus.MODELS[1]}"
            raise InputError(message, key="efficiency", accepted="kernels.efficiency, or compute = roofline")
        if self.kernel_tables is not None:
            kernel_tables.read(self.kernel_tables, self.precision)
            if self.compute == npus.MODELS[0]:
                message = f"have no effect on a {npus.MODELS[0]}"
                raise InputError(message, key="kernel_tables", accepted="compute = kernels, and no efficiency")
        if self.reserve >= self.memory:
            raise InputError(f"{self.reserve!r} leaves nothing", key="reserve", accepted=f"less than {self.memory:g} B")
        if self.expanded_memory and self.expanded_memory_bandwidth is None:
            message = f"is missing, and expanded_memory is {render(self.expanded_memory, Unit.BYTES)}"
            raise InputError(message, key="expanded_memory_bandwidth", accepted="a bandwidth such as '500 GB/s'")
        if self.expanded_memory_bandwidth is not None and not self.expanded_memory:
            message = "there is no memory of this bandwidth: expanded_memory is 0 B"
            raise InputError(message, key="expanded_memory", accepted="a size above 0 B such as '480 GB'")

    @classmethod
    def of(cls, preset: str, precision: str = "bf16", **fields: Any) -> Self:
        """Return an accelerator that is known by name, such as ``h100``, or raise an ``InputError``.

        Args:
            preset: Its name; the file npus.toml has the known ones and their sources.
            precision: ``bf16`` or ``fp8``, which decides the peak rate; rates are dense.
            **fields: Used in place of those of the accelerator. With ``efficiency`` it is a roofline.
        """
        known = npus.values(preset, precision, roofline="efficiency" in fields)
        model = dict(known.pop("kernels"))
        attention = AttentionModel(**model.pop("attention"))
        kernels = KernelModel(**model, attention=attention)
        return cls(**{**known, "kernels": kernels, "precision": precision, **fields})

    @cached_property
    def constants(self) -> KernelModel:
        """Constants of kernels: those of ``kernel_tables`` if there are any, else ``kernels``."""
        if self.kernel_tables is None:
            return self.kernels
        return kernel_tables.fitted(self.kernels, self.kernel_tables, self.precision, self.peak, self.memory_bandwidth)

    def assumed(self, graph: TaskGraph, scale: float = 1.0) -> tuple[str, ...]:
        """Return what a reader must know of the times of computations of ``graph``, which take ``scale`` times that."""
        plain = self.compute == npus.MODELS[0]
        notes = []
        if graph.kernel_tables and not plain:
            option = "kernels" if self.kernel_tables is None else "kernel_tables"
            notes.append(f"kernels: {self.constants.status or 'constants that were given'} (npu.{option})")
        unlisted = graph.flops > 0 if plain else (graph.kernels < 0) & (graph.flops > 0)
        if unlisted.any() and self.efficiency == scale == 1.0:
            peak = render(self.peak, Unit.FLOPS)
            what = "computations" if plain else "computations that list no kernels"
            notes.append(f"{what} run at the whole peak of {peak}: npu.efficiency says another share")
        return tuple(notes)

    @property
    def room(self) -> float:
        """Bytes of the local memory that a workload may have."""
        return self.memory - self.reserve

    @property
    def capacity(self) -> float:
        """Bytes of the local and the expanded memory that a workload may have."""
        return self.room + self.expanded_memory

    def expanded(self, footprint: float) -> float:
        """Return how many of ``footprint`` bytes are in the expanded memory: what the local one has no room for."""
        return min(max(footprint - self.room, 0.0), self.expanded_memory)

    def holding(self, footprint: float) -> Self:
        """Return the accelerator as it computes while it holds ``footprint`` bytes.

        Bytes that computation moves are spread evenly over them, and the two memories moved one after the other, as in
        COMET's hybrid memory (arXiv 2211.16648). What neither has room for is left out.
        """
        expanded = self.expanded(footprint)
        if not expanded or self.expanded_memory_bandwidth is None:
            return self
        seconds = self.room / self.memory_bandwidth + expanded / self.expanded_memory_bandwidth
        return evolve(self, memory_bandwidth=(self.room + expanded) / seconds)

    def seconds(self, operations: float, moved: float, kernels: Kernels | None = None) -> float:
        """Return the time of ``operations`` FLOP that move ``moved`` bytes to and from the local memory.

        Roofline time, or, where ``compute`` is ``kernels``, that of given ones in turn, or of launches where longer.
        """
        if kernels is None or self.compute == npus.MODELS[0]:
            return max(operations / (self.peak * self.efficiency), moved / self.memory_bandwidth)
        known, rates = self.constants, (self.peak * self.constants.sustained, self.memory_bandwidth)
        own: tuple[Gemm | Attention, ...] = (*kernels.gemms, *kernels.attentions)
        moving = kernels.moved / (self.memory_bandwidth * known.memory_efficiency)
        others = max(kernels.launches - len(own), 0.0) * known.kernel
        busy = math.fsum([*(known.seconds(one, *rates) for one in own), moving, others])
        return busy if kernels.graphed else max(busy, kernels.launches * known.launch)
