"""Links that mark packets by their queues (ECN): what the policies that hear of marks have in common."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import units
from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw_sharing_roce.fluid import Fluid

# Bytes per second, and bytes of kmin and kmax: the authors' configuration for "Impact of RoCE Congestion Control
# Policies on Distributed Training of DNNs" (HOTI 2022), with its share at kmax.
_RATES = np.array([25e9, 40e9, 100e9, 200e9, 400e9, 2400e9]) / 8
_KMIN = np.array([100e3, 200e3, 400e3, 600e3, 800e3, 800e3])
_KMAX = 4 * _KMIN
_PMAX = 0.2

_GIVEN, _BY_RATE = "given", "by-rate"


@frozen
class Marking(Fluid):
    """A link marks no packets up to ``kmin`` bytes, a share that rises to ``pmax`` at ``kmax``, and all above.

    With ``thresholds = "by-rate"`` these follow the rate of each link: 100 and 400 KB at 25 Gb/s, 200 and 800 at 40,
    400 and 1600 at 100, 600 and 2400 at 200, 800 and 3200 at 400 and at 2400 Gb/s; in between they are interpolated,
    and outside they are those of the nearest rate. ``pmax`` is 0.2 then.
    """

    published: ClassVar[tuple[float, float, float]]  # kmin, kmax and pmax

    thresholds: str = units.choice(
        (_GIVEN, _BY_RATE), help="where kmin, kmax and pmax come from: fields, or the rate of each link"
    )
    kmin: float | None = units.quantity(
        units.Unit.BYTES, None, help="queue at which a link begins to mark packets; default: published"
    )
    kmax: float | None = units.quantity(
        units.Unit.BYTES, None, help="queue above which a link marks all packets; default: published"
    )
    pmax: float | None = units.option(None, help="share marked at kmax; default: published")

    def __attrs_post_init__(self) -> None:
        for key in ("kmin", "kmax", "pmax") if self.thresholds == _BY_RATE else ():
            if (value := getattr(self, key)) is not None:
                message = f"{value:g} is given, and thresholds is {_BY_RATE!r}"
                raise InputError(message, key=key, accepted=f"none with {_BY_RATE!r}")
        kmin, kmax, pmax = self._given
        if kmax < kmin:
            raise InputError(f"{kmax:g} B is less than kmin", key="kmax", accepted=f"at least {kmin:g} B")
        if not 0 < pmax <= 1:
            raise InputError(f"{pmax!r} is not a share", key="pmax", accepted="more than 0, at most 1")

    def levels(self, capacities: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return ``(links,)`` bytes of kmin and of kmax of links with such ``capacities``, and the share at kmax."""
        if self.thresholds == _BY_RATE:
            return np.interp(capacities, _RATES, _KMIN), np.interp(capacities, _RATES, _KMAX), _PMAX
        kmin, kmax, pmax = self._given
        return np.full(len(capacities), kmin), np.full(len(capacities), kmax), pmax

    @property
    def _given(self) -> tuple[float, float, float]:
        given = (self.kmin, self.kmax, self.pmax)
        kmin, kmax, pmax = (usual if one is None else one for one, usual in zip(given, self.published, strict=True))
        return kmin, kmax, pmax

    def signal(self, queues: FloatArray, carried: FloatArray, capacities: FloatArray) -> FloatArray:
        kmin, kmax, pmax = self.levels(capacities)
        rising = np.maximum(kmax - kmin, units.LEAST)
        return np.where(queues > kmax, 1.0, np.clip((queues - kmin) / rising, 0.0, 1.0) * pmax)
