"""What comes to a network from outside is checked here."""

import math
from collections.abc import Sequence

import numpy as np

from fredfw.answers import brief
from fredfw.arrays import is_real, is_whole, real, whole
from fredfw.errors import InputError
from fredfw.fabric import Fabric, FlowSet, Routes
from fredfw.fabric.answers import wrong_routes
from fredfw.simulation.sharing import SharingPolicy
from fredfw.typing import FloatArray, IntArray


def check_fabric(fabric: object) -> None:
    if not isinstance(fabric, Fabric):
        raise InputError(f"{fabric!r} is not a fabric", key="fabric", accepted="what a topology's build() returns")


def members_of(group: object, fabric: Fabric, key: str = "group") -> IntArray:
    """Return the numbers of NPUs of ``fabric`` that ``group`` has, all by default; raises ``InputError``."""
    npus = len(fabric.npus)
    if group is None:
        return np.arange(npus)
    accepted = f"different NPUs from 0 to {npus - 1}"
    # A set has no order of ranks.
    if isinstance(group, str) or not isinstance(group, Sequence | np.ndarray) or not np.size(group):
        raise InputError(f"{group!r} is not a {key}", key=key, accepted=accepted)
    for npu in group:
        if isinstance(npu, bool) or not is_whole(npu):
            raise InputError(f"{npu!r} is not the number of an NPU", key=key, accepted=accepted)
        if not 0 <= npu < npus:
            raise InputError(f"{fabric.name!r} has no NPU {npu}", key=key, accepted=accepted)
    members = np.asarray(group, dtype=np.intp)
    numbers, counts = np.unique(members, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"NPU {numbers[counts > 1][0]} is named twice", key=key, accepted=accepted)
    return members


def check_sharing(sharing: object) -> None:
    if sharing is not None and not isinstance(sharing, SharingPolicy):
        raise InputError(f"{sharing!r} is refused", key="sharing", accepted="a fredfw.SharingPolicy, or None")


def check_callback(callback: object) -> None:
    if not callable(callback):
        raise InputError(f"{callback!r} cannot be called", key="on_complete", accepted="a function")


def check_bandwidths(links: object, values: object, fabric: Fabric) -> tuple[IntArray, FloatArray]:
    numbers, bandwidths = whole(links), real(values)
    if numbers is None or numbers.ndim != 1:
        raise InputError(f"{brief(links)} is refused", key="links", accepted="an array of numbers of links")
    if bandwidths is None or bandwidths.shape != numbers.shape:
        accepted = f"an array of {len(numbers)} bytes per second"
        raise InputError(f"{brief(values)} is refused", key="values", accepted=accepted)
    count = len(fabric.bandwidths)
    missing = numbers[(numbers < 0) | (numbers >= count)]
    if missing.size:
        raise InputError(f"{fabric.name!r} has no link {missing[0]}", key="links", accepted=f"0 to {count - 1}")
    bad = bandwidths[~np.isfinite(bandwidths) | (bandwidths < 0)]
    if bad.size:
        accepted = "bytes per second, finite and not negative"
        raise InputError(f"a bandwidth of {float(bad[0])!r}", key="values", accepted=accepted)
    return numbers, bandwidths


def check_flows(flows: FlowSet, fabric: Fabric) -> None:
    if not isinstance(flows, FlowSet):
        raise InputError(f"{brief(flows)} is refused", key="flows", accepted="a fredfw.FlowSet")
    if not isinstance(flows.routes, Routes):
        raise InputError(f"{brief(flows.routes)} is refused", key="routes", accepted="fredfw.Routes")
    wrong = wrong_routes(flows.routes, fabric)
    if wrong is not None:
        raise InputError(f"routes with {wrong[0]}", key="routes", accepted=wrong[1])
    for key, least in (("activities", 1), ("repeat", 1), ("priority", 0)):
        number: object = getattr(flows, key)
        if not is_whole(number) or number < least:
            raise InputError(f"{number!r} is refused", key=key, accepted=f"a whole number of at least {least}")
    if not is_real(flows.setup) or not 0 <= flows.setup < math.inf:
        raise InputError(f"{flows.setup!r} is refused", key="setup", accepted="seconds, finite and not negative")
    if not isinstance(flows.label, str):
        raise InputError(f"{flows.label!r} is refused", key="label", accepted="text")
    _check_column(flows, "volumes", "fiu", "finite bytes, 0 or more")
    _check_column(flows, "activity", "iu", f"activities from 0 to {flows.activities - 1}")
    if (flows.activity >= flows.activities).any():
        message = f"a flow of activity {flows.activity.max()}"
        raise InputError(message, key="activity", accepted=f"activities from 0 to {flows.activities - 1}")
    if flows.caps is not None:
        _check_column(flows, "caps", "fiu", "bytes per second above 0", positive=True)


def _check_column(flows: FlowSet, key: str, kinds: str, accepted: str, *, positive: bool = False) -> None:
    count = len(flows.routes)
    accepted = f"an array of {count} {accepted}"
    values: object = getattr(flows, key)
    if not isinstance(values, np.ndarray) or values.shape != (count,) or values.dtype.kind not in kinds:
        raise InputError(f"{brief(values)} is refused", key=key, accepted=accepted)
    # A cap may be infinite.
    fits = values > 0 if positive else (values >= 0) & (values < np.inf)
    if not fits.all():
        raise InputError(f"{values[~fits][0]} is refused", key=key, accepted=accepted)
