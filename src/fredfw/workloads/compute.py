"""How long a computation takes on an NPU: a roofline."""

from __future__ import annotations

from typing import Any, Self

from attrs import frozen

from fredfw.units import at_least, bandwidth, flops, option, size
from fredfw.workloads import npus


@frozen
class Npu:
    """An accelerator. The defaults are FRED's H100-like NPU: 80 GB of HBM3 at 3 TB/s (FRED, table of parameters).

    The peak rate is that of an H100 SXM5 in dense FP16 on tensor cores (NVIDIA H100 data sheet).
    """

    peak: float = flops("989.4 TFLOP/s", help="peak compute rate")
    memory_bandwidth: float = bandwidth("3 TB/s", help="bandwidth of the local memory")
    memory: float = size("80 GB", help="capacity of the local memory")
    efficiency: float = option(
        1.0, validator=at_least(1e-6, at_most=1.0), help="share of the peak rate that is reached"
    )

    @classmethod
    def of(cls, preset: str, precision: str = "bf16", **fields: Any) -> Self:
        """Return an accelerator that is known by name, such as ``h100``.

        Args:
            preset: Its name; an unknown one is answered with the known ones. The file npus.toml has their sources.
            precision: ``bf16`` or ``fp8``, which decides the peak rate; rates are dense.
            **fields: Used in place of those of the accelerator.

        Raises:
            InputError: There is no such accelerator, it has no rate for that precision, or an impossible value.
        """
        return cls(**{**npus.values(preset, precision), **fields})

    def seconds(self, operations: float, moved: float) -> float:
        """Return the roofline time of ``operations`` FLOP that move ``moved`` bytes to and from the local memory."""
        return max(operations / (self.peak * self.efficiency), moved / self.memory_bandwidth)
