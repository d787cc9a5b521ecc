"""What a computation launches on an NPU, so that its time can follow from the shapes."""

from __future__ import annotations

import math

from attrs import Attribute, field, frozen

from fredfw.errors import InputError


def _finite(instance: object, attribute: Attribute[float], value: float) -> None:
    if not math.isfinite(value) or value < 0:
        name = type(instance).__name__
        raise InputError(f"{name} has {attribute.name} {value!r}", key=attribute.name, accepted="finite and at least 0")


@frozen
class Gemm:
    """Matrix multiplications of one shape that run as one kernel: ``(m, k)`` times ``(k, n)``.

    Where workers split a matrix, a dimension may be a fraction.

    Args:
        m: Rows of the result.
        n: Columns of the result.
        k: Inner dimension.
        batch: How many there are.
        width: Bytes of a number.

    Raises:
        InputError: A value is negative or not finite.
    """

    m: float = field(validator=_finite)
    n: float = field(validator=_finite)
    k: float = field(validator=_finite)
    batch: float = field(default=1.0, validator=_finite)
    width: float = field(default=2.0, validator=_finite)

    @property
    def flops(self) -> float:
        """Floating-point operations, two per multiply-add."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def moved(self) -> float:
        """Bytes of both factors and the result."""
        return self.width * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)


@frozen
class Kernels:
    """The kernels of a computation.

    Args:
        gemms: The matrix multiplications.
        moved: Bytes that all other kernels read and write in the local memory.
        launches: How many kernels the host launches, those of ``gemms`` among them.

    Raises:
        InputError: A value is negative or not finite.
    """

    gemms: tuple[Gemm, ...] = ()
    moved: float = field(default=0.0, validator=_finite)
    launches: float = field(default=0.0, validator=_finite)

    @property
    def flops(self) -> float:
        """Floating-point operations of the matrix multiplications."""
        return sum(gemm.flops for gemm in self.gemms)

    def __add__(self, other: Kernels) -> Kernels:
        """Return the kernels of both."""
        return Kernels(self.gemms + other.gemms, self.moved + other.moved, self.launches + other.launches)
